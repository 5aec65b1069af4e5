/**
 * Draws styled text: pieces of text, each with words for its style, such as `bold red on #ffffff`.
 *
 * @import {Parts} from "../contract.js"
 */

import { el } from "../elements.js";

const SWITCHES = new Set(["bold", "dim", "italic", "underline", "strike", "reverse"]);
const NAMES = "black|red|green|yellow|blue|magenta|cyan|white";
const NAMED = new RegExp(`^(?:bright_)?(?:${NAMES})$`);
/** So many styles one row may have; one with more is shown without any. */
export const MOST_STYLES = 64;
const RGB = /^#[0-9a-f]{6}$/;

/**
 * One piece of text in its style.
 *
 * @param {string} text
 * @param {string} style
 * @returns {Node}
 */
export function styledText(text, style) {
  if (!style) return document.createTextNode(text);
  const made = el("span", {}, text);
  let ground = false;
  for (const word of style.split(" ")) {
    if (word === "on") ground = true;
    else if (SWITCHES.has(word)) made.classList.add(word);
    else if (NAMED.test(word))
      made.classList.add(`${ground ? "b" : "f"}-${word.replace("bright_", "")}`);
    else if (RGB.test(word)) made.style.setProperty(ground ? "background-color" : "color", word);
  }
  return made;
}

/**
 * A row of pieces, the ranges in `marks` inside of <mark>.
 *
 * @param {Parts} given
 * @param {[number, number][]} [ranges]
 * @returns {Node[]}
 */
export function styledRow(given, ranges = []) {
  // a row in so many styles is no code that is read
  const parts = given.length > MOST_STYLES ? plain(given) : given;
  const marks = ranges.length > MOST_STYLES ? [] : ranges;
  if (!marks.length) return parts.map(([text, style]) => styledText(text, style));
  /** @type {Node[]} */
  const made = [];
  const edges = [...new Set(marks.flat())].sort((one, other) => one - other);
  let at = 0;
  for (const [text, style] of parts) {
    const inside = edges.map((edge) => edge - at).filter((edge) => edge > 0 && edge < text.length);
    const cuts = [0, ...inside, text.length];
    for (let number = 0; number + 1 < cuts.length; number += 1) {
      const start = cuts[number];
      const piece = styledText(text.slice(start, cuts[number + 1]), style);
      const marked = marks.some(([first, last]) => first <= at + start && at + start < last);
      made.push(marked ? el("mark", {}, piece) : piece);
    }
    at += text.length;
  }
  return made;
}

/**
 * @param {Parts} parts
 * @returns {Parts}
 */
function plain(parts) {
  return [[parts.map(([text]) => text).join(""), ""]];
}
