/**
 * A list of any length: only what is near the screen has elements.
 *
 * Places are numbered, and their heights are estimated until they were measured. The list stays at
 * its end while it grows, unless the reader went away from there; elsewhere what is on the screen
 * stays where it is, whatever happens above. Browsers bound the height of an element, so a list
 * that would be higher is mapped to that height: a wheel moves it by pixels all the same.
 */

import { el } from "./elements.js";
import { Heights } from "./heights.js";

const ESTIMATE = 84;
/** How far beyond the screen there are elements, in pixels. */
const OVERSCAN = 320;
const HIGHEST = 8_000_000;
/** So near to the end counts as being there. */
const NEAR = 24;
/** How often elements are made and measured, until those near the screen have all been. */
const MOST_TURNS = 6;

/**
 * @typedef {{
 *   draw: (at: number) => HTMLElement | null | undefined,
 *   dropped: (at: number) => void,
 *   near: (at: number, from: number, to: number) => number | null,
 *   moved: (first: number, last: number) => void,
 *   left: (atEnd: boolean) => void,
 * }} Owner `draw` returns null for a place that holds nothing, undefined for one that is on its way;
 *   `near` draws what of a place is between these pixels, and returns by how much what is at the
 *   first of them has moved down, or null if nothing can have
 */

export class List {
  /**
   * @param {HTMLElement} scroller
   * @param {Owner} owner
   */
  constructor(scroller, owner) {
    this.scroller = scroller;
    this.owner = owner;
    this.inner = el("div", { class: "places" });
    this.range = el("div", { class: "range" }, this.inner);
    scroller.replaceChildren(this.range);
    this.heights = new Heights(ESTIMATE);
    /** @type {Map<number, HTMLElement>} the places that have elements */
    this.mounted = new Map();
    this.sizes = new ResizeObserver((entries) => this.measured(entries));
    this.stick = true;
    /** Where the screen begins in the list. */
    this.offset = 0;
    this.lastTop = 0;
    this.sizes.observe(scroller);
    scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    scroller.addEventListener("scrollend", () => this.settle());
  }

  /** Empties the list. */
  reset() {
    for (const at of [...this.mounted.keys()]) this.unmount(at);
    this.heights = new Heights(ESTIMATE);
    this.stick = true;
    this.offset = 0;
    this.owner.left(true);
    this.render();
  }

  /** @param {number} count */
  grow(count) {
    if (count <= this.heights.count) return;
    this.heights.grow(count);
    this.render();
  }

  /**
   * Draws places again that changed.
   *
   * @param {Iterable<number>} places
   */
  changed(places) {
    for (const at of places) if (this.mounted.has(at)) this.unmount(at);
    this.render();
  }

  /** Draws all that is on the screen again. */
  redraw() {
    this.changed([...this.mounted.keys()]);
  }

  // ---- where the screen is

  get view() {
    return this.scroller.clientHeight;
  }

  /** How many pixels of the list a pixel of the scroll bar is. */
  get scale() {
    const total = this.heights.total;
    return total <= HIGHEST ? 1 : (total - this.view) / (HIGHEST - this.view);
  }

  get farthest() {
    return Math.max(0, this.heights.total - this.view);
  }

  scrolled() {
    const { scrollTop } = this.scroller;
    const moved = scrollTop - this.lastTop;
    if (Math.abs(moved) < 1) return;
    const isFar = Math.abs(moved) > 2 * this.view;
    const bottom = this.scroller.scrollHeight - this.view;
    if (this.scale === 1 || isFar) this.offset = scrollTop * this.scale;
    else this.offset += moved;
    if (scrollTop <= 0) this.offset = 0;
    if (scrollTop >= bottom - 1) this.offset = this.farthest;
    this.lastTop = scrollTop;
    const atEnd = this.offset >= this.farthest - NEAR;
    this.setStick(atEnd || (this.stick && moved > 0));
    this.render();
  }

  /** @param {boolean} stick */
  setStick(stick) {
    if (stick === this.stick) return;
    this.stick = stick;
    this.owner.left(stick);
  }

  /** After a movement: the scroll bar shows where we are, also in a list that is mapped. */
  settle() {
    if (this.scale !== 1) this.place();
  }

  place() {
    const top = this.offset / this.scale;
    if (Math.abs(this.scroller.scrollTop - top) >= 1) this.scroller.scrollTop = top;
    this.lastTop = this.scroller.scrollTop;
  }

  toEnd() {
    this.setStick(true);
    this.render();
  }

  /**
   * Brings a place to the top of the screen.
   *
   * @param {number} at
   * @param {number} [below] so many pixels of it are above the screen
   */
  to(at, below = 0) {
    this.setStick(false);
    this.offset = Math.min(this.heights.top(at) + below, this.farthest);
    this.render();
    this.place();
    if (this.offset >= this.farthest - NEAR && at >= this.heights.count - 1) this.setStick(true);
  }

  /**
   * Brings a place onto the screen, if it is not there.
   *
   * @param {number} at
   */
  show(at) {
    const top = this.heights.top(at);
    const end = this.heights.top(at + 1);
    if (top >= this.offset && end <= this.offset + this.view) return;
    if (top < this.offset || end - top > this.view) this.to(at);
    else {
      this.offset = end - this.view;
      this.setStick(this.offset >= this.farthest - NEAR);
      this.render();
      this.place();
    }
  }

  // ---- elements

  /** @param {ResizeObserverEntry[]} entries */
  measured(entries) {
    const anchor = this.anchor();
    let changed = false;
    for (const entry of entries) {
      if (entry.target === this.scroller) {
        // what ended at the edge of a smaller screen, or fits on a larger one, is at the end
        if (this.offset >= this.farthest - 1) this.setStick(true);
        changed = true;
        continue;
      }
      const element = /** @type {HTMLElement} */ (entry.target);
      const at = Number(element.dataset.at);
      if (this.mounted.get(at) !== element) continue;
      changed = this.heights.set(at, entry.borderBoxSize[0].blockSize) || changed;
    }
    if (changed) {
      this.keep(anchor);
      this.render();
    }
  }

  /** The first place on the screen, and how far its beginning is above it. */
  anchor() {
    const at = this.heights.find(this.offset);
    return { at, above: this.offset - this.heights.top(at) };
  }

  /** @param {{at: number, above: number}} anchor */
  keep(anchor) {
    const top = this.heights.top(anchor.at);
    // what grew is the place itself: then its beginning stays, as far as it is on the screen
    this.offset = Math.max(0, Math.min(top + anchor.above, this.farthest));
  }

  render() {
    const { heights } = this;
    for (let turn = 0; turn < MOST_TURNS; turn += 1) {
      if (this.stick) this.offset = this.farthest;
      this.offset = Math.max(0, Math.min(this.offset, this.farthest));
      const anchor = this.anchor();
      if (!this.mount(anchor)) break;
      this.keep(anchor);
    }
    if (this.farthest === 0) this.setStick(true);
    this.range.style.height = `${Math.min(heights.total, HIGHEST)}px`;
    const [first] = this.shown;
    const above = heights.top(first) - this.offset;
    if (this.scale === 1) this.inner.style.transform = `translateY(${heights.top(first)}px)`;
    else this.inner.style.transform = `translateY(${this.scroller.scrollTop + above}px)`;
    if (this.scale === 1 || this.stick) this.place();
    if (this.scale !== 1)
      this.inner.style.transform = `translateY(${this.scroller.scrollTop + above}px)`;
  }

  /** The places that have elements, from the first to behind the last. */
  get shown() {
    const { heights } = this;
    if (!heights.count) return [0, 0];
    const first = heights.find(this.offset - OVERSCAN);
    return [first, heights.find(this.offset + this.view + OVERSCAN) + 1];
  }

  /**
   * @param {{at: number, above: number}} anchor moved with what is at the beginning of the screen
   * @returns {boolean} whether heights changed, so that other places may be near the screen
   */
  mount(anchor) {
    const [first, end] = this.shown;
    const keep = this.focusedPlace();
    for (const at of [...this.mounted.keys()]) {
      if ((at < first || at >= end) && at !== keep) this.unmount(at);
    }
    this.owner.moved(first, end);
    if (keep >= 0) this.mounted.get(keep)?.classList.toggle("away", keep < first || keep >= end);
    let changed = false;
    /** @type {HTMLElement[]} */
    const fresh = [];
    /** @type {ChildNode | null} */
    let next = this.inner.firstChild;
    for (let at = first; at < end; at += 1) {
      const here = this.mounted.get(at);
      if (here) {
        if (here !== next) this.inner.insertBefore(here, next);
        else next = here.nextSibling;
        continue;
      }
      const drawn = this.owner.draw(at);
      if (drawn === null) changed = this.heights.set(at, 0) || changed;
      if (drawn === null) continue;
      const element = drawn ?? el("div", { class: "place loading" });
      element.dataset.at = String(at);
      this.mounted.set(at, element);
      this.inner.insertBefore(element, next);
      if (drawn) fresh.push(drawn);
      else element.style.height = `${this.heights.heights[at]}px`;
    }
    // measured here, and not by the observer only, whose report would come after the first paint
    for (const element of fresh) {
      const { height } = element.getBoundingClientRect();
      changed = this.heights.set(Number(element.dataset.at), height) || changed;
      this.sizes.observe(element);
    }
    for (const [at, element] of this.mounted) {
      const from = this.heights.top(anchor.at) + anchor.above - this.heights.top(at);
      const moved = this.owner.near(at, from, from + this.view);
      if (moved === null) continue;
      if (at === anchor.at) anchor.above += moved;
      changed = this.heights.set(at, element.getBoundingClientRect().height) || changed;
    }
    return changed;
  }

  /** A place that has the focus keeps its element while it is out of sight, or it would be lost. */
  focusedPlace() {
    const focused = document.activeElement?.closest("[data-at]");
    return focused && this.inner.contains(focused) ? Number(focused.getAttribute("data-at")) : -1;
  }

  /** @param {number} at */
  unmount(at) {
    const element = this.mounted.get(at);
    if (!element) return;
    this.mounted.delete(at);
    this.sizes.unobserve(element);
    element.remove();
    this.owner.dropped(at);
  }
}
