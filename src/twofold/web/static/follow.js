/**
 * Follow along: the file and the line that the agent is at now, beside the conversation.
 *
 * @import {Location} from "./contract.js"
 * @import {Mirror} from "./mirror.js"
 */

import { placeName } from "./blocks/locations.js";
import { styledRow } from "./blocks/styled.js";
import { byId, el } from "./elements.js";

/** So many of the last places are looked through for a location. */
const LOOKED_AT = 60;

export class Follow {
  constructor() {
    this.panel = /** @type {HTMLElement} */ (byId("follow"));
    this.name = /** @type {HTMLElement} */ (byId("follow-name"));
    this.code = /** @type {HTMLElement} */ (byId("follow-code"));
    this.again = /** @type {HTMLButtonElement} */ (byId("follow-again"));
    this.toggle = /** @type {HTMLButtonElement} */ (byId("follow-toggle"));
    /** @type {Mirror | null} */
    this.mirror = null;
    /** Whether it goes where the agent goes: not after somebody opened a file. */
    this.following = true;
    this.shown = "";
    this.asked = 0;
    this.toggle.addEventListener("click", () => this.setOpen(!this.isOpen));
    byId("follow-close").addEventListener("click", () => {
      this.setOpen(false);
      this.toggle.focus();
    });
    this.again.addEventListener("click", () => {
      this.following = true;
      this.refresh(this.mirror);
    });
  }

  get isOpen() {
    return !this.panel.hidden;
  }

  /** @param {boolean} open */
  setOpen(open) {
    this.panel.hidden = !open;
    this.toggle.setAttribute("aria-expanded", String(open));
    document.body.classList.toggle("following", open);
    if (open) this.refresh(this.mirror);
  }

  /**
   * Opens a file at a line, and stays there.
   *
   * @param {Location} location
   */
  open(location) {
    this.following = false;
    if (!this.isOpen) this.setOpen(true);
    this.refresh(this.mirror);
    this.shown = "";
    this.show(location);
  }

  /** @param {Mirror | null} mirror */
  refresh(mirror) {
    if (mirror?.id !== this.mirror?.id) {
      this.following = true;
      this.shown = "";
      this.name.textContent = "";
      this.code.replaceChildren();
    }
    this.mirror = mirror;
    this.again.hidden = this.following;
    if (!this.isOpen || !this.following || !mirror) return;
    const found = currentLocation(mirror);
    if (found) this.show(found.location, found.version);
    else this.code.replaceChildren(el("p", { class: "facts" }, "The agent was in no file yet."));
  }

  /**
   * @param {Location} location
   * @param {number} [version] of the tool call: when it changes, the file may have
   */
  async show(location, version = 0) {
    const { mirror } = this;
    const wanted = JSON.stringify([mirror?.id, location.path, location.line, version]);
    if (!mirror || wanted === this.shown) return;
    this.shown = wanted;
    this.asked += 1;
    const { asked } = this;
    this.name.textContent = placeName(location);
    this.name.title = location.path;
    try {
      const query = new URLSearchParams({ path: location.path });
      if (location.line) query.set("line", String(location.line));
      const answer = await fetch(`/session/${encodeURIComponent(mirror.id)}/file?${query}`);
      const found = await answer.json().catch(() => ({}));
      if (asked !== this.asked) return;
      if (answer.ok) this.draw(found, location.line ?? 0);
      else this.fail(found.message ?? `The server answered ${answer.status}.`);
    } catch {
      if (asked === this.asked) this.fail("There is no connection to the server.");
    }
  }

  /** @param {string} words */
  fail(words) {
    this.code.replaceChildren(el("p", { class: "facts" }, words));
  }

  /**
   * @param {{first: number, lines: import("./contract.js").Parts[], total: number, more: boolean}} file
   * @param {number} line
   */
  draw(file, line) {
    const { first, lines, total, more } = file;
    const rows = lines.map((parts, number) => {
      const made = el("div", { class: "line", "data-new": first + number }, ...styledRow(parts));
      if (first + number === line) {
        made.classList.add("current");
        made.setAttribute("aria-current", "true");
      }
      return made;
    });
    const before = first > 1 ? el("p", { class: "facts" }, `${first - 1} lines before`) : null;
    const after = total - first - lines.length + 1;
    const words = `${more ? "More than " : ""}${after} lines after`;
    const end = after > 0 || more ? el("p", { class: "facts" }, words) : null;
    this.code.replaceChildren(...[before, ...rows, end].filter((each) => each !== null));
    const current = /** @type {HTMLElement | null} */ (this.code.querySelector(".current"));
    this.code.scrollTop = current ? current.offsetTop - this.code.clientHeight / 3 : 0;
  }
}

/**
 * The last location of an open tool call, or else of the last one.
 *
 * @param {Mirror} mirror
 * @returns {{location: Location, version: number} | null}
 */
export function currentLocation(mirror) {
  let last = null;
  for (let at = mirror.count - 1; at >= Math.max(0, mirror.count - LOOKED_AT); at -= 1) {
    const held = mirror.places.get(at);
    const location =
      held?.block.type === "ToolCallBlock" ? held.block.locations?.at(-1) : undefined;
    if (!held || !location) continue;
    last ??= { location, version: held.version };
    if (!held.block.finished) return { location, version: held.version };
  }
  return last;
}
