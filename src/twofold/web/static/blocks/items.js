/**
 * Draws the items of messages, tool calls, compactions and questions, in their order.
 *
 * @import {Context} from "./context.js"
 * @import {Piece} from "../contract.js"
 */

import { copyButton } from "../clipboard.js";
import { el } from "../elements.js";
import { diff } from "./diff.js";
import { folded } from "./folding.js";
import { MarkdownText } from "./markdown.js";
import { described, unknown } from "./media.js";
import { sectionsOf } from "./sections.js";
import { terminal } from "./terminal.js";

const SHOWN_LINES = 14;
const SHOWN_SECTIONS = 3;
/** A line longer than this counts as several. */
const LONG_LINE = 240;

/**
 * @param {Piece} item
 * @param {Context} context
 * @param {string} part
 * @returns {HTMLElement | null}
 */
export function itemOf(item, context, part) {
  const made = drawn(item, context, part);
  const { hidden } = item;
  if (!hidden || !made || item.type === "TerminalItem") return made;
  const unit = item.type === "DiffItem" ? "lines" : "characters";
  const words = `${hidden.toLocaleString("en")} more ${unit} are not shown`;
  return el("div", {}, made, el("p", { class: "facts" }, words));
}

/**
 * @param {Piece} item
 * @param {Context} context
 * @param {string} part
 * @returns {HTMLElement | null}
 */
function drawn(item, context, part) {
  switch (item.type) {
    case "TextItem":
      return item.markdown
        ? markdown(item.markdown, context, part)
        : plain(item.text ?? "", context, part);
    case "DiffItem":
      return diff(item.lines ?? [], context, part);
    case "TerminalItem":
      return terminal(item);
    case "DescribedItem":
      return described(item, context, part);
    default:
      return unknown(`[unknown item: ${item.type}]`, item, context, part);
  }
}

/**
 * Markdown of a tool, section by section if it is long.
 *
 * @param {Piece[]} items
 * @param {Context} context
 * @param {string} part
 */
function markdown(items, context, part) {
  const sections = sectionsOf({ type: "MessageBlock", items });
  const made = el("div", {});
  const draw = (/** @type {number} */ from, /** @type {number} */ to) =>
    Array.from({ length: to - from }, (_, step) => {
      const root = el("div", { class: "markdown" });
      const start = sections.starts[from + step];
      const blocks = sections.pieces.slice(start, sections.end(from + step));
      new MarkdownText(root, sections).settle(blocks, start);
      return root;
    });
  made.append(...folded(context, part, sections.count, SHOWN_SECTIONS, "parts", draw));
  return made;
}

/**
 * Text as it was sent, the beginning of it if it is long.
 *
 * @param {string} text
 * @param {Context} context
 * @param {string} part
 */
function plain(text, context, part) {
  const shown = text.replace(/^\n+|\n+$/g, "");
  if (!shown) return null;
  const lines = shown.split("\n").flatMap(pieces);
  const made = el("div", { class: "output", tabindex: "0" });
  const draw = (/** @type {number} */ from, /** @type {number} */ to) => [
    document.createTextNode(
      lines
        .slice(from, to)
        .map((line, at) => (from + at && line.starts ? "\n" : "") + line.text)
        .join(""),
    ),
  ];
  made.append(...folded(context, part, lines.length, SHOWN_LINES, "lines", draw));
  const copy = copyButton("Copy this text", () => shown);
  return el("div", { class: "output-box" }, el("div", { class: "tools" }, copy), made);
}

/** @param {string} line */
function pieces(line) {
  const made = [{ text: line.slice(0, LONG_LINE), starts: true }];
  for (let at = LONG_LINE; at < line.length; at += LONG_LINE) {
    made.push({ text: line.slice(at, at + LONG_LINE), starts: false });
  }
  return made;
}
