/**
 * Draws Markdown that arrives as a flat list of blocks: each names the quotes and lists it is in.
 *
 * What is settled is appended and never touched again. The tail, which may still become something
 * else, is drawn by the same rules, and taken away again before anything follows.
 *
 * @import {Piece, Container, Span} from "../contract.js"
 * @import {Sections} from "./sections.js"
 */

import { copyButton } from "../clipboard.js";
import { el, link } from "../elements.js";
import { styledRow } from "./styled.js";

/**
 * So many characters of a paragraph are laid out together. What follows them is a block of its own
 * on the next line, or every piece that arrives would lay out all of them again.
 */
const LONGEST_PART = 16_384;

/**
 * @typedef {{kind: string, list: HTMLElement, inside: HTMLElement}} Open a list or quote that is open
 * @typedef {{open: Open[], code: HTMLElement | null, body: HTMLTableSectionElement | null,
 *   aligns: string[], paragraph: HTMLElement | null, part: HTMLElement | null,
 *   length: number}} State `part` is the part of the paragraph that grows, `length` that of its text
 */

export class MarkdownText {
  /**
   * @param {HTMLElement} root where the text is drawn into
   * @param {Sections | null} [sections] where the blocks are, if the text may begin in the middle
   */
  constructor(root, sections = null) {
    this.root = root;
    this.sections = sections;
    /** The number of the block that is drawn. */
    this.at = 0;
    /** @type {State} */
    this.state = {
      open: [],
      code: null,
      body: null,
      aligns: [],
      paragraph: null,
      part: null,
      length: 0,
    };
    /** @type {ChildNode[] | null} what is to be taken away with the tail */
    this.loose = null;
    /** @type {State | null} */
    this.before = null;
  }

  /**
   * @param {Piece[]} blocks that are settled now
   * @param {number} [at] the number of the first of them
   */
  settle(blocks, at = 0) {
    this.dropTail();
    this.draw(blocks, at);
  }

  /**
   * @param {Piece[]} blocks that may still change
   * @param {number} [at] the number that the first of them will have
   */
  tail(blocks, at = 0) {
    this.dropTail();
    if (!blocks.length) return;
    this.before = { ...this.state, open: [...this.state.open] };
    this.loose = [];
    this.draw(blocks, at);
  }

  /**
   * @param {Piece[]} blocks
   * @param {number} at
   */
  draw(blocks, at) {
    for (const [number, block] of blocks.entries()) {
      this.at = at + number;
      this.block(block);
    }
  }

  dropTail() {
    if (!this.loose || !this.before) return;
    for (const node of this.loose) node.remove();
    this.state = this.before;
    this.loose = this.before = null;
  }

  /**
   * @template {ChildNode} Made
   * @param {Element} parent
   * @param {Made} node
   * @returns {Made}
   */
  append(parent, node) {
    parent.append(node);
    this.loose?.push(node);
    return node;
  }

  /** @param {Piece} block */
  block(block) {
    const within = block.within ?? [];
    if (block.type === "Blank") {
      this.blank(within);
      return;
    }
    const parent = this.enter(within);
    const { state } = this;
    if (block.type !== "CodeLine") state.code = null;
    if (block.type !== "TableRow") state.body = null;
    if (block.type !== "Paragraph") state.paragraph = null;
    this.leaf(block, parent);
  }

  /**
   * @param {Piece} block
   * @param {HTMLElement} parent
   */
  leaf(block, parent) {
    switch (block.type) {
      case "Heading": {
        // below the headings of the page
        const name = /** @type {"h3"} */ (`h${Math.min(6, (block.level ?? 1) + 2)}`);
        this.append(parent, el(name, {}, ...spans(block.spans)));
        return;
      }
      case "Paragraph":
        this.paragraph(block, parent);
        return;
      case "CodeStart":
        this.code(block.language ?? "", parent);
        return;
      case "CodeLine":
        this.codeLine(block, parent);
        return;
      case "Rule":
        this.append(parent, el("hr"));
        return;
      case "Table":
        this.table(block, parent);
        return;
      case "TableRow":
        this.tableRow(block, parent);
        return;
      default:
        this.append(parent, el("p", { class: "facts" }, `[${block.type}]`));
    }
  }

  /** @param {Container[]} within */
  blank(within) {
    const { state } = this;
    state.code = state.body = state.paragraph = null;
    // a blank line ends a quote that it is not in; a list goes on after it
    const end = state.open.findIndex(
      (each, depth) => depth >= within.length && each.kind === "quote",
    );
    if (end >= 0) state.open.length = end;
  }

  /**
   * Opens and closes containers, until these are the ones that are open.
   *
   * @param {Container[]} within
   * @returns {HTMLElement} where to draw
   */
  enter(within) {
    const { state } = this;
    let depth = 0;
    while (depth < within.length && state.open[depth]?.kind === kindOf(within[depth])) {
      if (within[depth].opens) break;
      depth += 1;
    }
    const goesOn = depth < within.length ? state.open[depth] : undefined;
    const sameList = goesOn?.kind === kindOf(within[depth] ?? {}) ? goesOn?.list : undefined;
    if (state.open.length > depth || within.length > depth) state.paragraph = null;
    state.open.length = depth;
    for (; depth < within.length; depth += 1) {
      const container = within[depth];
      const kind = kindOf(container);
      const parent = state.open[depth - 1]?.inside ?? this.root;
      const again = state.open.length === depth && sameList?.parentElement === parent;
      const list = again && sameList ? sameList : this.append(parent, listOf(kind));
      const inside = kind === "quote" ? list : this.append(list, itemOf(container));
      state.open.push({ kind, list, inside });
    }
    return state.open.at(-1)?.inside ?? this.root;
  }

  /**
   * @param {Piece} block
   * @param {HTMLElement} parent
   */
  paragraph(block, parent) {
    if (!block.spans?.length) return;
    const { state } = this;
    if (!(block.continues && state.paragraph)) {
      state.paragraph = state.part = this.append(parent, el("p", { class: joined(block) }));
      state.length = 0;
    } else if (state.length > LONGEST_PART) {
      state.part = this.append(state.paragraph, el("span", { class: "part" }));
      state.length = 0;
    }
    const part = /** @type {HTMLElement} */ (state.part);
    for (const node of spans(block.spans)) this.append(part, node);
    for (const { text } of block.spans) state.length += text.length;
  }

  /**
   * @param {string} language
   * @param {HTMLElement} parent
   */
  code(language, parent) {
    const code = el("code");
    const { sections, at } = this;
    const all = () => (sections ? sections.codeAt(at) : (code.textContent ?? ""));
    const copy = copyButton("Copy this code", all);
    const label = language ? el("span", { class: "language" }, language) : null;
    // it scrolls sideways, so the keyboard must be able to reach it
    const pre = el("pre", { tabindex: "0" }, code);
    const box = this.append(parent, el("div", { class: "code" }, label, copy, pre));
    this.state.code = code;
    return box;
  }

  /**
   * @param {Piece} block
   * @param {HTMLElement} parent
   */
  codeLine(block, parent) {
    if (!this.state.code) this.code("", parent).classList.add("joined");
    const code = /** @type {HTMLElement} */ (this.state.code);
    if (code.hasChildNodes() && !block.continues) this.append(code, document.createTextNode("\n"));
    const parts = block.spans ?? [[block.text ?? "", ""]];
    for (const node of styledRow(parts)) this.append(code, /** @type {ChildNode} */ (node));
    // an empty line must count as one
    if (!code.hasChildNodes()) this.append(code, document.createTextNode(""));
  }

  /**
   * @param {Piece} block
   * @param {HTMLElement} parent
   */
  tableRow(block, parent) {
    const table = this.state.body ? undefined : this.sections?.tableAt(this.at);
    // a table that began elsewhere has its header here, too
    if (table?.type === "Table") this.table(/** @type {Piece} */ ({ ...table, rows: [] }), parent);
    const { body, aligns } = this.state;
    if (body) this.append(body, row(block.cells ?? [], aligns));
  }

  /**
   * @param {Piece} block
   * @param {HTMLElement} parent
   */
  table(block, parent) {
    const aligns = block.aligns ?? [];
    const body = el("tbody");
    const rows = /** @type {Span[][][]} */ (/** @type {unknown} */ (block.rows ?? []));
    body.append(...rows.map((cells) => row(cells, aligns)));
    const head = el("thead", {}, row(block.header ?? [], aligns, "th"));
    const scroll = { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table" };
    this.append(parent, el("div", scroll, el("table", {}, head, body)));
    this.state.body = body;
    this.state.aligns = aligns;
  }
}

/** @param {Piece} paragraph that begins here */
function joined(paragraph) {
  return paragraph.continues ? "joined" : undefined;
}

/**
 * @param {Container} container
 * @returns {string}
 */
function kindOf(container) {
  if (container.type === "Quote") return "quote";
  return container.number === undefined || container.number === null ? "bullets" : "numbers";
}

/** @param {string} kind */
function listOf(kind) {
  return kind === "quote" ? el("blockquote") : el(kind === "bullets" ? "ul" : "ol");
}

/** @param {Container} item */
function itemOf(item) {
  const task = typeof item.task === "boolean";
  const made = el("li", { class: task ? "task" : undefined, value: item.number ?? undefined });
  // it was opened where the text before is
  if (!item.opens) made.classList.add("goes-on");
  if (task && item.opens) made.append(el("span", { class: "box" }, item.task ? "☑ " : "☐ "));
  return made;
}

/**
 * @param {Span[][]} cells
 * @param {string[]} aligns
 * @param {"td" | "th"} [name]
 */
function row(cells, aligns, name = "td") {
  const made = cells.map((cell, number) =>
    el(name, { class: aligns[number] ? `to-${aligns[number]}` : undefined }, ...spans(cell)),
  );
  return el("tr", {}, ...made);
}

/**
 * @param {Span[]} [given]
 * @returns {ChildNode[]}
 */
export function spans(given = []) {
  return given.map(span);
}

/**
 * @param {Span} span
 * @returns {ChildNode}
 */
function span(span) {
  const words = span.image ? `[image${span.text ? `: ${span.text}` : ""}]` : span.text;
  /** @type {ChildNode} */
  let made = lines(words);
  if (span.code) made = el("code", {}, made);
  if (span.strike) made = el("s", {}, made);
  if (span.emphasis) made = el("em", {}, made);
  if (span.strong) made = el("strong", {}, made);
  if (span.url) made = link(span.url, made);
  else if (span.target && span.target !== span.text)
    made = el("span", {}, made, ` (${span.target})`);
  return made;
}

/**
 * Text, whose newlines are line breaks.
 *
 * @param {string} text
 * @returns {ChildNode}
 */
function lines(text) {
  if (!text.includes("\n")) return document.createTextNode(text);
  const made = el("span");
  for (const [number, line] of text.split("\n").entries()) {
    if (number) made.append(el("br"));
    made.append(line);
  }
  return made;
}
