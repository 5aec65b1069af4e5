/**
 * Draws what a message or a tool call holds: all of it if it is short, else the sections that are
 * near the screen, between two spaces as high as the others.
 *
 * @import {Context} from "./context.js"
 * @import {Block} from "../contract.js"
 */

import { el } from "../elements.js";
import { asText } from "./as_text.js";
import { Pieces } from "./pieces.js";
import { sectionsOf } from "./sections.js";

/** How far beyond the screen there are sections, in pixels. */
const OVERSCAN = 120;
/** How often sections are drawn and measured, until those near the screen have all been. */
const MOST_TURNS = 4;

/** @typedef {{element: HTMLElement, pieces: Pieces, end: number}} View `end`: drawn up to there */

export class Body {
  /**
   * @param {HTMLElement} element
   * @param {Block} block
   * @param {Context} context
   */
  constructor(element, block, context) {
    this.element = element;
    this.context = context;
    this.sections = sectionsOf(block);
    /** @type {Map<number, View>} the sections that have elements */
    this.views = new Map();
    this.above = el("div", { class: "space" });
    this.below = el("div", { class: "space" });
    if (this.isLong) element.append(this.above, this.below);
    else this.views.set(0, this.viewIn(element, 0));
    this.grow();
  }

  get isLong() {
    return !this.sections.isWhole;
  }

  /** Draws what the block has more than before, as far as it is on the page. */
  grow() {
    this.sections.read();
    if (this.isLong && !this.above.parentElement) this.divide();
    for (const [number, view] of this.views) this.update(number, view);
  }

  /** What was drawn as a whole becomes the first section. */
  divide() {
    const view = /** @type {View} */ (this.views.get(0));
    const section = el("div", { class: "section" }, ...this.element.childNodes);
    this.element.append(this.above, section, this.below);
    view.element = view.pieces.body = section;
  }

  /**
   * @param {HTMLElement} element
   * @param {number} number
   * @returns {View}
   */
  viewIn(element, number) {
    const start = this.sections.starts[number];
    return { element, pieces: new Pieces(element, this.context, this.sections), end: start };
  }

  /**
   * @param {number} number
   * @param {View} view
   */
  update(number, view) {
    const { sections } = this;
    const end = sections.end(number);
    const isLast = number === sections.count - 1;
    view.pieces.grow(view.end, end, isLast ? sections.tail : []);
    view.end = end;
    if (!this.isLong) return;
    view.element.classList.toggle("cut", !isLast && sections.joins(number + 1));
    view.element.classList.toggle("joined", sections.joins(number));
  }

  // ---- what is near the screen

  /**
   * Draws the sections near the screen, and takes the others away.
   *
   * @param {number} from where the screen begins, in pixels from the top of the place
   * @param {number} to where it ends
   * @returns {number | null} by how much what is at the beginning of the screen has moved down;
   *   null if everything is drawn anyway
   */
  near(from, to) {
    if (!this.isLong || this.element.closest("details:not([open])")) return null;
    const { heights } = this.sections;
    const line = from - this.top;
    this.measure();
    const first = heights.find(line);
    const before = heights.top(first);
    let shift = 0;
    for (let turn = 0; turn < MOST_TURNS; turn += 1) {
      const start = heights.find(line + shift - OVERSCAN);
      const last = heights.find(line + shift + to - from + OVERSCAN);
      if (!this.mount(start, last)) break;
      this.measure();
      shift = heights.top(first) - before;
    }
    return shift;
  }

  /** Where it begins in its place, in pixels. */
  get top() {
    const place = this.element.closest(".place") ?? this.element;
    return this.element.getBoundingClientRect().top - place.getBoundingClientRect().top;
  }

  measure() {
    for (const [number, { element }] of this.views) {
      if (element.classList.contains("away")) continue;
      this.sections.heights.set(number, element.getBoundingClientRect().height);
    }
  }

  /**
   * @param {number} start
   * @param {number} last
   * @returns {boolean} whether there are others than before
   */
  mount(start, last) {
    let changed = false;
    for (const [number, view] of this.views) {
      const isNear = number >= start && number <= last;
      // what has the focus would lose it
      const holds = !isNear && view.element.contains(document.activeElement);
      view.element.classList.toggle("away", holds);
      if (isNear || holds) continue;
      view.element.remove();
      this.views.delete(number);
      changed = true;
    }
    /** @type {Element} */
    let next = this.below;
    for (let number = last; number >= start; number -= 1) {
      let view = this.views.get(number);
      if (!view) {
        view = this.viewIn(el("div", { class: "section" }), number);
        this.views.set(number, view);
        this.update(number, view);
        changed = true;
      }
      if (view.element.nextElementSibling !== next) next.before(view.element);
      next = view.element;
    }
    const { heights } = this.sections;
    this.above.style.height = `${heights.top(start)}px`;
    this.below.style.height = `${heights.total - heights.top(last + 1)}px`;
    return changed;
  }

  /**
   * Where the section begins in which a text is, in pixels from the top of the place.
   *
   * @param {string} text
   * @returns {number | null} null if it is not found
   */
  topOf(text) {
    const wanted = text.toLowerCase();
    const { sections } = this;
    for (let number = 0; this.isLong && number < sections.count; number += 1) {
      const pieces = sections.pieces.slice(sections.starts[number], sections.end(number));
      const isIn = asText(pieces).toLowerCase().includes(wanted);
      if (isIn) return this.top + sections.heights.top(number);
    }
    return null;
  }
}
