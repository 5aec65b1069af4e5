/**
 * Folds what is long. What a reader unfolded stays so when the block is drawn again.
 *
 * @import {Context} from "./context.js"
 */

import { button, el } from "../elements.js";

/** So many rows are shown at once by one press. */
const MOST_AT_ONCE = 200;

/**
 * The first of some rows, and a button for the others, which come so many at once.
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
  /** @type {(from: number, to: number) => Node[]} */
  const step = (from, to) => {
    // a button in place of two rows or fewer would save nothing
    if (count <= to + 2) return draw(from, count);
    const name = to === shown ? part : `${part} from ${to}`;
    const next = () => step(to, Math.min(count, to + MOST_AT_ONCE));
    const rows = draw(from, to);
    if (context.isOpen(name)) return [...rows, ...next()];
    const more = button(`Show ${(count - to).toLocaleString("en")} more ${what}`, unfold, {
      class: "unfold",
      "data-part": name,
    });
    function unfold() {
      context.setOpen(name, true);
      more.replaceWith(...next());
    }
    return [...rows, more];
  };
  return step(0, shown);
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
