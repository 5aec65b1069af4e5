/**
 * What a block holds as text, as it is copied: paragraphs, the marks of lists, code line by line.
 *
 * @import {Container, Piece, Span} from "../contract.js"
 */

/**
 * @param {Iterable<Piece>} pieces
 * @param {number} [enough] so many characters are enough
 * @returns {string}
 */
export function asText(pieces, enough = Infinity) {
  /** @type {string[]} */
  const made = [];
  /** @type {Piece | null} */
  let before = null;
  let gap = false;
  let length = 0;
  for (const piece of pieces) {
    if (length >= enough) break;
    if (piece.type === "Blank" || piece.type === "CodeStart") {
      gap = true;
      continue;
    }
    const text = textOf(piece);
    if (before) made.push(separator(before, piece, gap));
    made.push(text);
    length += text.length;
    before = piece;
    gap = false;
  }
  return made.join("");
}

/**
 * @param {Piece} before
 * @param {Piece} piece
 * @param {boolean} gap whether there is a blank line between them, or code begins
 */
function separator(before, piece, gap) {
  if (piece.continues || (piece.type === "TextItem" && before.type === "TextItem")) return "";
  const inList = (/** @type {Piece} */ each) =>
    (each.within ?? []).some((one) => one.type !== "Quote");
  const isRow = piece.type === "TableRow" || piece.type === "CodeLine";
  return (isRow || (inList(before) && inList(piece))) && !gap ? "\n" : "\n\n";
}

/** @param {Piece} piece */
function textOf(piece) {
  const { first, others } = marks(piece);
  return first + ownText(piece).replaceAll("\n", `\n${others}`);
}

/** @param {Piece} piece */
function ownText(piece) {
  switch (piece.type) {
    case "Paragraph":
    case "Heading":
      return spansText(piece.spans);
    case "Rule":
      return "---";
    case "Table":
      return [piece.header ?? [], .../** @type {any} */ (piece.rows ?? [])].map(row).join("\n");
    case "TableRow":
      return row(piece.cells ?? []);
    case "TextItem":
      return piece.markdown ? asText(piece.markdown) : (piece.text ?? "");
    default:
      return piece.text ?? "";
  }
}

/** @param {Span[]} [spans] */
function spansText(spans = []) {
  return spans.map((span) => span.text).join("");
}

/** @param {Span[][]} cells */
function row(cells) {
  return cells.map(spansText).join("\t");
}

/**
 * What is before the first line of a piece, and before its others.
 *
 * @param {Piece} piece
 */
function marks({ within = [], continues = false }) {
  let first = "";
  let others = "";
  for (const each of within) {
    const mark = each.type === "Quote" ? "> " : itemMark(each);
    const blank = each.type === "Quote" ? "> " : " ".repeat(mark.length);
    first += each.type === "Quote" || each.opens ? mark : blank;
    others += blank;
  }
  return { first: continues ? "" : first, others };
}

/** @param {Container} item */
function itemMark({ number, task }) {
  const mark = number === undefined || number === null ? "- " : `${number}. `;
  return typeof task === "boolean" ? `${mark}[${task ? "x" : " "}] ` : mark;
}
