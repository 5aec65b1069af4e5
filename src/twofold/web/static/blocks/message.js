/**
 * Draws messages and thoughts. They grow at their end: what is settled is never drawn again.
 *
 * @import {Context, Drawn} from "./context.js"
 * @import {Block, Piece} from "../contract.js"
 */

import { copyButton } from "../clipboard.js";
import { el } from "../elements.js";
import { details } from "./folding.js";
import { itemOf } from "./items.js";
import { MarkdownText } from "./markdown.js";

const ITEMS = new Set(["TextItem", "DescribedItem", "DiffItem", "TerminalItem"]);
/** How many characters of a thought are shown while it is closed. */
const FIRST_WORDS = 100;

/**
 * @param {Block} block
 * @param {Context} context
 * @returns {Drawn}
 */
export function message(block, context) {
  const body = el("div", { class: "body" });
  const pieces = new Pieces(body, context);
  const { element, grown } = frameOf(block, body, context);
  const grow = (/** @type {Piece[]} */ settled, /** @type {Piece[]} */ tail) => {
    pieces.grow(settled, tail);
    grown();
  };
  grow(block.items ?? [], block.tail ?? []);
  return { element, grow };
}

/**
 * What is around the text, and a function to be called when it has grown.
 *
 * @param {Block} block
 * @param {HTMLElement} body
 * @param {Context} context
 */
function frameOf(block, body, context) {
  const copy = copyButton("Copy this message", () => body.innerText);
  const tools = el("div", { class: "tools" }, copy);
  if (block.role === "thought") return thought(body, context);
  if (block.role === "user") {
    const label = el("h2", { class: "hidden-label" }, "You");
    return { element: el("section", { class: "message user" }, label, body, tools), grown() {} };
  }
  if (block.role === "session") {
    const label = el("p", { class: "facts" }, `Message from session ${block.sender || "unknown"}`);
    return { element: el("section", { class: "message other" }, label, body, tools), grown() {} };
  }
  const label = el("h2", { class: "hidden-label" }, "Agent");
  return { element: el("section", { class: "message agent" }, label, body, tools), grown() {} };
}

/**
 * @param {HTMLElement} body
 * @param {Context} context
 */
function thought(body, context) {
  const words = el("span", { class: "first-words" });
  const summary = el("span", {}, el("b", {}, "Thought"), " ", words);
  const element = details(context, "thought", summary, { class: "message thought" }, body);
  const grown = () => {
    if ((words.textContent ?? "").length > FIRST_WORDS) return;
    const text = (body.textContent ?? "")
      .slice(0, 4 * FIRST_WORDS)
      .replace(/\s+/g, " ")
      .trim();
    words.textContent = text.length > FIRST_WORDS ? `${text.slice(0, FIRST_WORDS)}…` : text;
  };
  return { element, grown };
}

/** The pieces of a message: runs of Markdown and of plain text, with other items between them. */
class Pieces {
  /**
   * @param {HTMLElement} body
   * @param {Context} context
   */
  constructor(body, context) {
    this.body = body;
    this.context = context;
    this.count = 0;
    /** @type {MarkdownText | null} the run of Markdown at the end */
    this.markdown = null;
    /** @type {HTMLElement | null} the run of plain text at the end */
    this.text = null;
    /** @type {ChildNode[]} what is drawn of the tail, but for Markdown that goes on */
    this.loose = [];
  }

  /**
   * @param {Piece[]} settled
   * @param {Piece[]} tail
   */
  grow(settled, tail) {
    for (const node of this.loose) node.remove();
    this.loose = [];
    this.markdown?.dropTail();
    for (const piece of settled) this.settle(piece);
    this.drawTail(tail);
  }

  /** @param {Piece} piece */
  settle(piece) {
    this.count += 1;
    if (!ITEMS.has(piece.type)) {
      this.runOfMarkdown().settle([piece]);
    } else if (piece.type === "TextItem" && !piece.markdown) {
      this.markdown = null;
      this.text ??= add(this.body, el("div", { class: "text" }));
      this.text.append(piece.text ?? "");
    } else {
      this.markdown = this.text = null;
      const item = itemOf(piece, this.context, `item ${this.count}`);
      if (item) this.body.append(item);
    }
  }

  runOfMarkdown() {
    this.text = null;
    this.markdown ??= new MarkdownText(add(this.body, el("div", { class: "markdown" })));
    return this.markdown;
  }

  /** @param {Piece[]} tail */
  drawTail(tail) {
    const blocks = tail.filter((piece) => !ITEMS.has(piece.type));
    if (blocks.length) {
      if (this.markdown) this.markdown.tail(blocks);
      else {
        const root = this.keep(el("div", { class: "markdown" }));
        new MarkdownText(root).settle(blocks);
      }
    }
    for (const piece of tail) {
      if (!ITEMS.has(piece.type)) continue;
      if (piece.type === "TextItem" && !piece.markdown) {
        const text = document.createTextNode(piece.text ?? "");
        this.loose.push(text);
        if (this.text) this.text.append(text);
        else this.keep(el("div", { class: "text" })).append(text);
      } else {
        const item = itemOf(piece, this.context, `item ${this.count + 1}`);
        if (item) this.keep(item);
      }
    }
  }

  /**
   * @template {HTMLElement} Made
   * @param {Made} node
   * @returns {Made}
   */
  keep(node) {
    this.body.append(node);
    this.loose.push(node);
    return node;
  }
}

/**
 * @param {HTMLElement} parent
 * @param {HTMLElement} child
 */
function add(parent, child) {
  parent.append(child);
  return child;
}
