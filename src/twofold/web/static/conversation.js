/**
 * The conversation: the blocks of a session in a list, drawn as they change.
 *
 * @import {Connection} from "./connection.js"
 * @import {Context, Drawn} from "./blocks/context.js"
 * @import {Location} from "./contract.js"
 * @import {Held, Mirror} from "./mirror.js"
 */

import { draw } from "./blocks/draw.js";
import { byId, el, focusedPart, restoreFocus } from "./elements.js";
import { List } from "./list.js";
import { Media } from "./media_cache.js";

/** How many places beyond the screen are held. */
const MARGIN = 60;
/** The window moves when fewer places than this are left beyond the screen. */
const LEAST = 20;
/** From this width on there is room for two sides of a diff, in pixels. */
const WIDE = 1080;

export class Conversation {
  /**
   * @param {Connection} connection
   * @param {(location: Location) => void} openFile
   */
  constructor(connection, openFile) {
    this.connection = connection;
    this.openFile = openFile;
    this.scroller = /** @type {HTMLElement} */ (byId("conversation"));
    this.jump = /** @type {HTMLButtonElement} */ (byId("to-end"));
    this.empty = /** @type {HTMLElement} */ (byId("empty"));
    /** @type {Mirror | null} */
    this.mirror = null;
    this.media = new Media();
    /** @type {Map<number, {key: string, drawn: Drawn}>} what is drawn of the places with elements */
    this.drawn = new Map();
    /** @type {Map<string, boolean>} what the reader opened or closed */
    this.open = new Map();
    this.thoughtsOpen = false;
    this.seenCount = 0;
    /** Whether the session is being observed. */
    this.isLive = false;
    /** @type {number | null} a place to go to as soon as it is known */
    this.wanted = null;
    /** A text that was searched: its section is shown, as soon as it has arrived. */
    this.wantedText = "";
    /** @type {number | null} the place that has it */
    this.textAt = null;
    this.wide = false;
    this.list = new List(this.scroller, {
      draw: (at) => this.drawPlace(at),
      dropped: (at) => this.drawn.delete(at),
      near: (at, from, to) => this.drawn.get(at)?.drawn.near?.(from, to) ?? null,
      moved: (first, last) => this.moved(first, last),
      left: (atEnd) => this.showJump(atEnd),
    });
    this.jump.addEventListener("click", () => this.list.toEnd());
    for (const each of ["wheel", "keydown", "pointerdown"]) {
      this.scroller.addEventListener(each, () => this.forgetText(), { passive: true });
    }
    new ResizeObserver(() => this.measureWidth()).observe(this.scroller);
  }

  /** @param {Mirror | null} mirror */
  show(mirror) {
    if (mirror !== this.mirror) {
      this.open.clear();
      this.media.clear();
      this.list.stick = true;
    }
    this.mirror = mirror;
    this.seenCount = 0;
    this.list.reset();
    this.refreshEmpty();
  }

  refreshEmpty() {
    this.empty.hidden = !this.mirror || this.mirror.count > 0;
  }

  /**
   * Draws what a frame changed.
   *
   * @param {Mirror} mirror
   * @param {import("./mirror.js").Changes} changes
   */
  changed(mirror, changes) {
    if (mirror !== this.mirror) return;
    for (const held of changes.grow) this.grow(held);
    const again = changes.put.filter((held) => this.list.mounted.has(held.at));
    const places = [...again.map((held) => held.at), ...changes.gone];
    const focused = places.map((at) => this.focusIn(at)).find((each) => each !== null);
    this.list.heights.grow(mirror.count);
    this.list.changed(places);
    if (focused) this.refocus(focused);
    this.refreshEmpty();
    this.showJump(this.list.stick);
    this.goToWanted();
  }

  /** The places of the window that had not arrived are here now. */
  arrived() {
    const { list } = this;
    const waiting = [...list.mounted].filter(([, each]) => each.classList.contains("loading"));
    list.changed(waiting.map(([at]) => at));
    this.goToWanted();
  }

  /** @param {Held} held */
  grow(held) {
    const drawn = this.drawn.get(held.at)?.drawn;
    if (!drawn) return;
    if (drawn.grow) drawn.grow();
    else this.list.changed([held.at]);
  }

  // ---- places

  /** @param {number} at */
  drawPlace(at) {
    const held = this.mirror?.at(at);
    if (!held) return held;
    const drawn = draw(held.block, this.context(held.key));
    this.drawn.set(at, { key: held.key, drawn });
    const { mirror } = this;
    const permalink = el("a", {
      class: "permalink",
      href: `#${mirror?.id}/${at}`,
      "aria-label": `Link to this place, number ${at + 1}`,
      title: "Link to this place",
      tabindex: "-1",
    });
    return el("div", { class: "place", tabindex: "-1" }, permalink, drawn.element);
  }

  /**
   * @param {string} key
   * @returns {Context}
   */
  context(key) {
    const name = (/** @type {string} */ part) =>
      part === "side by side" ? part : `${key}/${part}`;
    const { id = "" } = this.mirror ?? {};
    return {
      key,
      wide: this.wide,
      isOpen: (part, byDefault = part === "thought" && this.thoughtsOpen) =>
        this.open.get(name(part)) ?? byDefault,
      setOpen: (part, open) => this.open.set(name(part), open),
      openFile: this.openFile,
      media: (of, media) => this.media.url(id, of, media),
    };
  }

  /** Opens all thoughts, or closes them. */
  toggleThoughts() {
    this.thoughtsOpen = !this.thoughtsOpen;
    for (const name of [...this.open.keys()]) if (name.endsWith("/thought")) this.open.delete(name);
    this.list.redraw();
  }

  measureWidth() {
    const wide = this.scroller.clientWidth >= WIDE;
    if (wide === this.wide) return;
    this.wide = wide;
    document.body.classList.toggle("wide", wide);
    this.list.redraw();
  }

  // ---- focus

  /** @param {number} at */
  focusIn(at) {
    const element = this.list.mounted.get(at);
    if (!element) return null;
    if (element === document.activeElement) return { at, part: null };
    const part = focusedPart(element);
    return part === null ? null : { at, part };
  }

  /** @param {{at: number, part: string | null}} focused */
  refocus({ at, part }) {
    const element = this.list.mounted.get(at);
    if (!element) return;
    if (part === null) element.focus({ preventScroll: true });
    else restoreFocus(element, part);
  }

  /**
   * Moves the focus to the next or the previous place that is drawn.
   *
   * @param {1 | -1} step
   */
  step(step) {
    const { list } = this;
    const focused = list.focusedPlace();
    let at = focused >= 0 ? focused : list.heights.find(list.offset + (step > 0 ? -1 : list.view));
    do at += step;
    while (this.mirror?.at(at) === null && at > 0 && at < list.heights.count);
    if (at < 0 || at >= list.heights.count) return;
    list.show(at);
    list.mounted.get(at)?.focus({ preventScroll: true });
  }

  // ---- the window

  /**
   * @param {number} first
   * @param {number} last
   */
  moved(first, last) {
    const { mirror } = this;
    if (!mirror || !this.isLive) return;
    const { stick } = this.list;
    const end = mirror.to ?? Infinity;
    const lacks =
      (first - LEAST < mirror.from && mirror.from > 0) ||
      (last + LEAST > end && end < mirror.count);
    const tooMany = Math.min(end, mirror.count) - mirror.from > last - first + 6 * MARGIN;
    if (!lacks && !tooMany && !(stick && mirror.to !== null)) return;
    this.setWindow(Math.max(0, first - MARGIN), stick ? null : last + MARGIN);
  }

  /**
   * @param {number} from
   * @param {number | null} to
   */
  setWindow(from, to) {
    const { mirror } = this;
    if (!mirror) return;
    mirror.setWindow(from, to);
    this.connection.request("window", { from, to }).then(
      () => {
        if (mirror !== this.mirror || mirror.from !== from || mirror.to !== to) return;
        mirror.settle();
        this.arrived();
      },
      () => {}, // the connection was lost: the window is sent again when it is back
    );
  }

  /**
   * Goes to a place, as soon as it is there.
   *
   * @param {number} at
   */
  goTo(at) {
    this.wanted = at;
    this.goToWanted();
  }

  /** The reader goes on from here. */
  forgetText() {
    this.wantedText = "";
    this.textAt = null;
  }

  /** Shows the part of a long block that has the text. */
  goToText() {
    const at = this.textAt;
    const below = at === null ? null : this.drawn.get(at)?.drawn.topOf?.(this.wantedText);
    if (at === null || typeof below !== "number") return;
    this.forgetText();
    this.list.to(at, below);
  }

  goToWanted() {
    if (this.wanted === null) {
      this.goToText();
      return;
    }
    const { wanted, mirror } = this;
    if (wanted === null || !mirror || mirror.count <= wanted) return;
    this.list.to(wanted);
    const element = this.list.mounted.get(wanted);
    if (!element || element.classList.contains("loading")) return;
    this.wanted = null;
    this.textAt = this.wantedText ? wanted : null;
    element.classList.add("found");
    element.focus({ preventScroll: true });
    this.goToText();
  }

  /** @param {boolean} atEnd */
  showJump(atEnd) {
    const count = this.mirror?.count ?? 0;
    if (atEnd) this.seenCount = count;
    const fresh = count - this.seenCount;
    this.jump.hidden = atEnd;
    this.jump.textContent = fresh > 0 ? `↓ ${fresh} new` : "↓ To the end";
  }
}
