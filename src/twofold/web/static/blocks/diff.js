/**
 * Draws diffs: unified, or side by side where there is room, the changed words marked.
 *
 * @import {Context} from "./context.js"
 * @import {DiffLine} from "../contract.js"
 */

import { copyButton } from "../clipboard.js";
import { button, el } from "../elements.js";
import { folded } from "./folding.js";
import { styledRow } from "./styled.js";

const SHOWN = 48;
/** Unchanged lines in a row of which more than this many are folded, but for some at each end. */
const LONGEST_CONTEXT = 10;
const KEPT_CONTEXT = 3;
const SIGNS = /** @type {Record<string, string>} */ ({ added: "+", removed: "-", context: " " });
/** What follows the name of a file: ` (new file)`. */
const FACTS = / \([a-z, ]*\)$/;

/**
 * @typedef {{lines: (DiffLine | null)[], hidden?: DiffLine[]}} Row one line, or an old and a new one
 */

/**
 * @param {DiffLine[]} lines
 * @param {Context} context
 * @param {string} part
 * @returns {HTMLElement}
 */
export function diff(lines, context, part) {
  const made = el("div", { class: "diff-box" });
  const draw = () => {
    const aside = isAside(lines, context);
    const rows = aside ? sideBySide(lines) : lines.map((line) => ({ lines: [line] }));
    const whole = foldContext(rows);
    const body = el("div", { class: aside ? "diff aside" : "diff", tabindex: "0", role: "group" });
    body.setAttribute("aria-label", "Changes");
    const drawn = (/** @type {number} */ from, /** @type {number} */ to) =>
      whole
        .slice(from, to)
        .map((row, number) => rowOf(row, context, `${part} ${from + number}`, aside));
    body.append(...folded(context, part, whole.length, SHOWN, "lines", drawn));
    const toggle = context.wide && hasTwoSides(lines);
    const swap = button(aside ? "Unified" : "Side by side", turn, {
      class: "quiet swap",
      "data-part": `${part} swap`,
    });
    const copy = copyButton("Copy this diff", () => asText(lines));
    made.replaceChildren(el("div", { class: "tools" }, toggle ? swap : null, copy), body);
  };
  const turn = () => {
    context.setOpen("side by side", !context.isOpen("side by side", true));
    draw();
  };
  draw();
  return made;
}

/**
 * @param {DiffLine[]} lines
 * @param {Context} context
 */
function isAside(lines, context) {
  return context.wide && hasTwoSides(lines) && context.isOpen("side by side", true);
}

/**
 * Whether there is anything to be shown on both sides: a new file has only one.
 *
 * @param {DiffLine[]} lines
 */
function hasTwoSides(lines) {
  return ["removed", "added"].every((kind) => lines.some((line) => line.kind === kind));
}

/** @param {DiffLine[]} lines */
function asText(lines) {
  return lines.map((line) => (SIGNS[line.kind] ?? "") + line.text).join("\n");
}

/**
 * Removed lines beside the added ones that follow them.
 *
 * @param {DiffLine[]} lines
 * @returns {Row[]}
 */
function sideBySide(lines) {
  /** @type {Row[]} */
  const made = [];
  let at = 0;
  while (at < lines.length) {
    const { kind } = lines[at];
    if (kind !== "removed" && kind !== "added") {
      made.push({ lines: kind === "context" ? [lines[at], lines[at]] : [lines[at]] });
      at += 1;
      continue;
    }
    const removed = run(lines, at, "removed");
    const added = run(lines, at + removed.length, "added");
    for (let number = 0; number < Math.max(removed.length, added.length); number += 1) {
      made.push({ lines: [removed[number] ?? null, added[number] ?? null] });
    }
    at += removed.length + added.length;
  }
  return made;
}

/**
 * @param {DiffLine[]} lines
 * @param {number} at
 * @param {string} kind
 */
function run(lines, at, kind) {
  let end = at;
  while (lines[end]?.kind === kind) end += 1;
  return lines.slice(at, end);
}

/**
 * @param {Row[]} rows
 * @returns {Row[]}
 */
function foldContext(rows) {
  /** @type {Row[]} */
  const made = [];
  /** @type {Row[]} */
  let same = [];
  const flush = () => {
    if (same.length > LONGEST_CONTEXT) {
      const hidden = same.slice(KEPT_CONTEXT, -KEPT_CONTEXT);
      made.push(...same.slice(0, KEPT_CONTEXT));
      made.push({ lines: [], hidden: hidden.map((row) => /** @type {DiffLine} */ (row.lines[0])) });
      made.push(...same.slice(-KEPT_CONTEXT));
    } else made.push(...same);
    same = [];
  };
  for (const row of rows) {
    if (row.lines[0]?.kind === "context") same.push(row);
    else {
      flush();
      made.push(row);
    }
  }
  flush();
  return made;
}

/**
 * @param {Row} row
 * @param {Context} context
 * @param {string} part
 * @param {boolean} aside
 * @returns {HTMLElement}
 */
function rowOf(row, context, part, aside) {
  if (row.hidden) return hiddenRow(row.hidden, context, part, aside);
  if (row.lines.length === 1) return lineOf(/** @type {DiffLine} */ (row.lines[0]), context);
  const [old, now] = row.lines;
  const sides = [old, now].map((line, side) =>
    line ? lineOf(line, context, side ? "new" : "old") : el("div", { class: "line none" }),
  );
  return el("div", { class: "pair" }, ...sides);
}

/**
 * @param {DiffLine[]} hidden
 * @param {Context} context
 * @param {string} part
 * @param {boolean} aside
 */
function hiddenRow(hidden, context, part, aside) {
  const rows = () =>
    hidden.map((line) => rowOf({ lines: aside ? [line, line] : [line] }, context, part, aside));
  const made = el("div", { class: "hidden-lines" });
  if (context.isOpen(part)) made.append(...rows());
  else {
    const open = () => {
      context.setOpen(part, true);
      made.replaceChildren(...rows());
    };
    const words = `${hidden.length} lines did not change`;
    made.append(button(words, open, { class: "unfold", "data-part": part }));
  }
  return made;
}

/**
 * @param {DiffLine} line
 * @param {Context} context
 * @param {"old" | "new" | ""} [side]
 */
function lineOf(line, context, side = "") {
  if (line.kind === "file") return fileOf(line, context);
  const name = line.kind === "added" ? "ins" : line.kind === "removed" ? "del" : "div";
  const made = el(name, { class: `line ${line.kind in SIGNS ? line.kind : "note"}` });
  if (line.kind === "hunk") made.classList.add("hunk");
  if (side !== "new" && line.old) made.dataset.old = String(line.old);
  if (side !== "old" && line.new) made.dataset.new = String(line.new);
  if (side) made.classList.add("single");
  if (line.kind in SIGNS) made.append(el("span", { class: "sign" }, SIGNS[line.kind]));
  made.append(...styledRow(line.spans ?? [[line.text, ""]], line.marks));
  return made;
}

/**
 * @param {DiffLine} line
 * @param {Context} context
 */
function fileOf(line, context) {
  const path = line.text.replace(FACTS, "").split(" → ").at(-1) ?? "";
  const facts = line.text.slice(line.text.replace(FACTS, "").length);
  const open = button(line.text.replace(FACTS, ""), () => context.openFile({ path }), {
    class: "location",
    "data-part": `location ${path}`,
    title: `Open ${path}`,
  });
  return el("div", { class: "file" }, open, facts ? el("span", { class: "facts" }, facts) : null);
}
