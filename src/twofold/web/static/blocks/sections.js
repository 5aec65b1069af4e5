/**
 * Cuts what a block holds into sections that are about equally large, so that only those near the
 * screen need elements. It goes on where it was when the block has grown. No elements here.
 *
 * @import {Block, Piece, Span} from "../contract.js"
 */

import { Heights } from "../heights.js";
import { MOST_STYLES } from "./styled.js";

/** What has no more elements than this is one section. */
const WHOLE = 400;
/** About so many elements are in a section, and in one of code or of one table. */
const LARGE = 100;
const LARGEST = 400;
/** So many spans or lines of one paragraph are drawn together. */
const MOST_SPANS = 80;
/** So many cells of a table are drawn with its header. */
const MOST_CELLS = 100;
/** So many characters of plain text are drawn together. */
const LONGEST_TEXT = 8_192;
/** Characters that count as much as an element. */
const LETTERS = 256;
/** What an item counts that is neither text nor Markdown. */
const ITEM = 12;
/** Lines of a diff that are drawn before the others are folded, and what a line counts. */
const LINES = 48;
const LINE = 6;
/** The height of a section that was never on the screen, in pixels. */
const ESTIMATE = 400;

const ITEMS = new Set(["TextItem", "DescribedItem", "DiffItem", "TerminalItem"]);

/** @type {WeakMap<Block, Sections>} */
const known = new WeakMap();

/**
 * The sections of a block, up to date.
 *
 * @param {Block} block
 * @returns {Sections}
 */
export function sectionsOf(block) {
  let found = known.get(block);
  if (!found) {
    found = new Sections(block);
    known.set(block, found);
  }
  found.read();
  return found;
}

export class Sections {
  /** @param {Block} block */
  constructor(block) {
    this.block = block;
    /** @type {Piece[]} all that is settled, in pieces none of which is large */
    this.pieces = [];
    /** The number of the first piece of each section. */
    this.starts = [0];
    this.heights = new Heights(ESTIMATE);
    this.heights.grow(1);
    /** How many pieces of the block were read. */
    this.seen = 0;
    /** What the last section counts. */
    this.weight = 0;
  }

  /** Reads what the block has more than before. */
  read() {
    const items = /** @type {Piece[]} */ (this.block.items ?? []);
    for (; this.seen < items.length; this.seen += 1) {
      for (const piece of this.cut(items[this.seen])) this.add(piece);
    }
  }

  get count() {
    return this.starts.length;
  }

  get isWhole() {
    return this.count === 1;
  }

  /**
   * Whether a section goes on with what the one before ends with: code, a table, a list.
   *
   * @param {number} number
   */
  joins(number) {
    const at = this.starts[number];
    const [before, piece] = [this.pieces[at - 1], this.pieces[at]];
    if (!before || !piece) return false;
    return goesOn(piece, before) || (isInList(piece) && isInList(before));
  }

  /** @param {number} number */
  end(number) {
    return this.starts[number + 1] ?? this.pieces.length;
  }

  /** @returns {Piece[]} what is not settled */
  get tail() {
    const tail = /** @type {Piece[]} */ (this.block.tail ?? []);
    return tail.flatMap((piece) => this.cut(piece));
  }

  /** @param {Piece} piece */
  cut(piece) {
    // the texts of a tool are folded, and so stay whole
    return this.block.type === "MessageBlock" ? cut(piece) : [piece];
  }

  /** @param {Piece} piece */
  add(piece) {
    const weight = weightOf(piece);
    const room = this.isWhole ? WHOLE : goesOn(piece, this.pieces.at(-1)) ? LARGEST : LARGE;
    if (this.weight > 0 && this.weight + weight > room) {
      this.starts.push(this.pieces.length);
      this.heights.grow(this.count);
      this.weight = 0;
    }
    this.pieces.push(piece);
    this.weight += weight;
  }

  /**
   * All lines of the code that a piece belongs to.
   *
   * @param {number} at the number of the piece
   * @returns {string}
   */
  codeAt(at) {
    const every = this.pieces.concat(this.tail);
    let text = "";
    for (let next = runStart(every, at, "CodeLine") + 1; next < every.length; next += 1) {
      const { type, text: line = "", continues } = every[next];
      if (type !== "CodeLine") break;
      text += (text === "" || continues ? "" : "\n") + line;
    }
    return text;
  }

  /**
   * The table that a row belongs to.
   *
   * @param {number} at the number of the row
   * @returns {Piece | undefined}
   */
  tableAt(at) {
    return this.pieces[runStart(this.pieces, at, "TableRow")];
  }
}

/**
 * The piece before the lines or rows around a piece.
 *
 * @param {Piece[]} pieces
 * @param {number} at
 * @param {string} type
 */
function runStart(pieces, at, type) {
  let start = at;
  while (start > 0 && (pieces[start]?.type ?? type) === type) start -= 1;
  return start;
}

/**
 * Whether a piece belongs to the one before.
 *
 * @param {Piece} piece
 * @param {Piece | undefined} before
 */
function goesOn(piece, before) {
  if (piece.continues || piece.type === "CodeLine" || piece.type === "TableRow") return true;
  if (piece.type === "TextItem" && before?.type === "TextItem") return !before.text?.endsWith("\n");
  return (piece.within ?? []).some((each) => !each.opens && each.type !== "Quote");
}

/** @param {Piece} piece */
function isInList({ within = [] }) {
  return within.some((each) => each.type !== "Quote");
}

// ---- how much a piece is

/**
 * About how many elements a piece becomes.
 *
 * @param {Piece} piece
 * @returns {number}
 */
export function weightOf(piece) {
  switch (piece.type) {
    case "Paragraph":
    case "Heading": {
      const opened = (piece.within ?? []).filter((each) => each.opens).length;
      return 1 + opened + spansWeight(piece.spans ?? []);
    }
    case "CodeStart":
      return 5;
    case "CodeLine":
      return (
        1 + Math.min(piece.spans?.length ?? 0, MOST_STYLES) + (piece.text?.length ?? 0) / LETTERS
      );
    case "Table":
      return (
        5 +
        rowWeight(piece.header ?? []) +
        rowsOf(piece).reduce((sum, row) => sum + rowWeight(row), 0)
      );
    case "TableRow":
      return rowWeight(piece.cells ?? []);
    case "TextItem":
      if (piece.markdown) return 5 + piece.markdown.reduce((sum, each) => sum + weightOf(each), 0);
      return 1 + (piece.text?.length ?? 0) / LETTERS;
    case "DiffItem":
      return ITEM + LINE * Math.min(piece.lines?.length ?? 0, LINES);
    case "TerminalItem":
      return ITEM + (piece.rows ?? []).reduce((sum, row) => sum + row.length, 0);
    default:
      return ITEMS.has(piece.type) ? ITEM : 1;
  }
}

/** @param {Span[]} spans */
function spansWeight(spans) {
  let weight = 0;
  for (const span of spans) {
    const { text } = span;
    // a span that is only text becomes no element
    const own = span.code || span.strong || span.emphasis || span.strike || span.url ? 1 : 0.2;
    weight += own + linesOf(text) - 1 + text.length / LETTERS;
  }
  return weight;
}

/** @param {Span[][]} cells */
function rowWeight(cells) {
  return 1 + cells.reduce((sum, cell) => sum + 1 + cell.length, 0);
}

/** @param {Piece} table */
function rowsOf(table) {
  return /** @type {Span[][][]} */ (/** @type {any} */ (table).rows ?? []);
}

/** @param {string} text */
function linesOf(text) {
  let count = 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

// ---- large pieces in parts

/**
 * A piece as several that are not large, and look the same one after the other.
 *
 * @param {Piece} piece
 * @returns {Piece[]}
 */
function cut(piece) {
  switch (piece.type) {
    case "Paragraph":
      return cutParagraph(piece);
    case "Table":
      return cutTable(piece);
    case "TextItem":
      return piece.markdown
        ? [piece]
        : cutText(piece.text ?? "").map((text) => ({ ...piece, text }));
    default:
      return [piece];
  }
}

/** @param {Piece} piece */
function cutParagraph(piece) {
  const spans = /** @type {Span[]} */ (piece.spans ?? []);
  if (spansWeight(spans) <= MOST_SPANS) return [piece];
  const parts = spans.flatMap(cutSpan);
  const { within = [] } = piece;
  // an item that goes on is opened once
  const after = within.map((each) => ({ ...each, opens: false }));
  const made = [];
  for (let at = 0; at < parts.length; ) {
    const start = at;
    let weight = 0;
    while (at < parts.length && (at === start || weight < MOST_SPANS)) {
      weight += linesOf(parts[at].text);
      at += 1;
    }
    const first = start === 0;
    made.push({
      ...piece,
      spans: parts.slice(start, at),
      within: first ? within : after,
      continues: first ? piece.continues : true,
    });
  }
  return made;
}

/**
 * A span with many lines as several.
 *
 * @param {Span} span
 * @returns {Span[]}
 */
function cutSpan(span) {
  if (linesOf(span.text) <= MOST_SPANS) return [span];
  const lines = span.text.split(/(?<=\n)/);
  const made = [];
  for (let at = 0; at < lines.length; at += MOST_SPANS) {
    made.push({ ...span, text: lines.slice(at, at + MOST_SPANS).join("") });
  }
  return made;
}

/** @param {Piece} table */
function cutTable(table) {
  const rows = rowsOf(table);
  const fit = Math.max(1, Math.floor(MOST_CELLS / Math.max(1, table.header?.length ?? 1)));
  if (rows.length <= fit) return [table];
  const { within } = table;
  const others = rows.slice(fit).map((cells) => ({ type: "TableRow", cells, within }));
  const first = /** @type {Piece} */ (/** @type {any} */ ({ ...table, rows: rows.slice(0, fit) }));
  return [first, ...others];
}

/** @param {string} text */
function cutText(text) {
  const made = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + LONGEST_TEXT);
    const line = end < text.length ? text.lastIndexOf("\n", end - 1) : -1;
    if (line > at) end = line + 1;
    made.push(text.slice(at, end));
    at = end;
  }
  return made.length ? made : [text];
}
