/**
 * Folds what is long. What a reader unfolded stays so when the block is drawn again.
 *
 * @import {Context} from "./context.js"
 */

import { button, el } from "../elements.js";

/**
 * The first of some rows, and a button for the others.
 *
 * @param {Context} context
 * @param {string} part a name for this place in the block
 * @param {number} count how many rows there are
 * @param {number} shown how many of them are shown while it is folded
 * @param {string} what `lines`
 * @param {(from: number, to: number) => Node[]} draw
 * @returns {Node[]}
 */
export function folded(context, part, count, shown, what, draw) {
  // a button in place of two rows or fewer would save nothing
  if (count <= shown + 2 || context.isOpen(part)) return draw(0, count);
  const more = button(`Show ${(count - shown).toLocaleString("en")} more ${what}`, unfold, {
    class: "unfold",
    "data-part": part,
  });
  const first = draw(0, shown);
  function unfold() {
    context.setOpen(part, true);
    more.replaceWith(...draw(shown, count));
  }
  return [...first, more];
}

/**
 * A part that opens and closes, and stays so.
 *
 * @param {Context} context
 * @param {string} part
 * @param {Node} summary
 * @param {Attributes} attributes
 * @param {...(Node | string | null)} children
 *
 * @import {Attributes} from "../elements.js"
 */
export function details(context, part, summary, attributes, ...children) {
  const made = el(
    "details",
    { open: context.isOpen(part), ...attributes },
    el("summary", { "data-part": part }, summary),
    ...children,
  );
  made.addEventListener("toggle", () => context.setOpen(part, made.open));
  return made;
}
