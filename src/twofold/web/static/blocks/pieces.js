/**
 * Draws pieces: runs of Markdown and of plain text, with other items between them. They grow at
 * their end: what is settled is never drawn again.
 *
 * @import {Context} from "./context.js"
 * @import {Piece} from "../contract.js"
 * @import {Sections} from "./sections.js"
 */

import { el } from "../elements.js";
import { itemOf } from "./items.js";
import { MarkdownText } from "./markdown.js";

const ITEMS = new Set(["TextItem", "DescribedItem", "DiffItem", "TerminalItem"]);

export class Pieces {
  /**
   * @param {HTMLElement} body
   * @param {Context} context
   * @param {Sections} sections where the pieces are
   */
  constructor(body, context, sections) {
    this.body = body;
    this.context = context;
    this.sections = sections;
    /** Whether plain text is one run: the texts of a tool are shown one by one, and folded. */
    this.runs = sections.block.type === "MessageBlock";
    /** @type {MarkdownText | null} the run of Markdown at the end */
    this.markdown = null;
    /** @type {HTMLElement | null} the run of plain text at the end */
    this.text = null;
    /** @type {ChildNode[]} what is drawn of the tail, but for Markdown that goes on */
    this.loose = [];
  }

  /**
   * Draws the pieces from one number to another, and the tail instead of the one before.
   *
   * @param {number} from
   * @param {number} to
   * @param {Piece[]} tail
   */
  grow(from, to, tail) {
    for (const node of this.loose) node.remove();
    this.loose = [];
    this.markdown?.dropTail();
    for (let at = from; at < to; at += 1) this.settle(this.sections.pieces[at], at);
    this.drawTail(tail, to);
  }

  /** @param {Piece} piece */
  isRun(piece) {
    return piece.type === "TextItem" && !piece.markdown && this.runs;
  }

  /**
   * @param {Piece} piece
   * @param {number} at
   */
  settle(piece, at) {
    if (!ITEMS.has(piece.type)) {
      this.runOfMarkdown().settle([piece], at);
    } else if (this.isRun(piece)) {
      this.markdown = null;
      this.text ??= add(this.body, el("div", { class: "text" }));
      this.text.append(piece.text ?? "");
    } else {
      this.markdown = this.text = null;
      const item = itemOf(piece, this.context, `item ${at + 1}`);
      if (item) this.body.append(item);
    }
  }

  runOfMarkdown() {
    this.text = null;
    this.markdown ??= new MarkdownText(
      add(this.body, el("div", { class: "markdown" })),
      this.sections,
    );
    return this.markdown;
  }

  /**
   * @param {Piece[]} tail
   * @param {number} at the number that the first of them will have
   */
  drawTail(tail, at) {
    const blocks = tail.filter((piece) => !ITEMS.has(piece.type));
    if (blocks.length) {
      if (this.markdown) this.markdown.tail(blocks, at);
      else {
        const root = this.keep(el("div", { class: "markdown" }));
        new MarkdownText(root, this.sections).settle(blocks, at);
      }
    }
    for (const piece of tail) {
      if (!ITEMS.has(piece.type)) continue;
      if (this.isRun(piece)) {
        const text = document.createTextNode(piece.text ?? "");
        this.loose.push(text);
        if (this.text) this.text.append(text);
        else this.keep(el("div", { class: "text" })).append(text);
      } else {
        const item = itemOf(piece, this.context, `item ${at + 1}`);
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
