/**
 * Search in a session and over all of them: the server looks, as the page holds only a part.
 *
 * @import {Connection} from "./connection.js"
 */

import { byId, el } from "./elements.js";
import { titleOf } from "./sessions.js";

/** Milliseconds without typing before the server is asked. */
const PAUSE = 180;
const AROUND = 60;

export class Search {
  /**
   * @param {Connection} connection
   * @param {() => {id: string, title?: string | null}[]} sessions
   * @param {() => string} current the session that is shown
   * @param {(text: string) => void} onChosen called with what was searched when a place is chosen
   */
  constructor(connection, sessions, current, onChosen) {
    this.onChosen = onChosen;
    this.connection = connection;
    this.sessions = sessions;
    this.current = current;
    this.dialog = /** @type {HTMLDialogElement} */ (byId("search"));
    this.text = /** @type {HTMLInputElement} */ (byId("search-text"));
    this.everywhere = /** @type {HTMLInputElement} */ (byId("search-everywhere"));
    this.found = /** @type {HTMLElement} */ (byId("search-found"));
    this.status = /** @type {HTMLElement} */ (byId("search-status"));
    /** @type {number | undefined} */
    this.timer = undefined;
    this.asked = 0;
    this.text.addEventListener("input", () => this.later());
    this.everywhere.addEventListener("change", () => this.look());
    byId("search-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.look();
    });
    this.found.addEventListener("click", (event) => {
      if (event.target instanceof Element && event.target.closest("a")) this.dialog.close();
    });
    byId("search-close").addEventListener("click", () => this.dialog.close());
  }

  show() {
    this.dialog.showModal();
    this.text.select();
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), PAUSE);
  }

  async look() {
    clearTimeout(this.timer);
    const text = this.text.value.trim();
    this.asked += 1;
    const { asked } = this;
    if (!text) {
      this.found.replaceChildren();
      this.status.textContent = "";
      return;
    }
    try {
      const session = this.everywhere.checked ? undefined : this.current() || undefined;
      const { found = [] } = await this.connection.request("search", { text, session });
      if (asked !== this.asked) return;
      this.status.textContent = found.length === 1 ? "1 place" : `${found.length} places`;
      this.found.replaceChildren(...found.map((/** @type {any} */ each) => this.row(each, text)));
    } catch (error) {
      if (asked === this.asked) this.status.textContent = /** @type {Error} */ (error).message;
    }
  }

  /**
   * @param {{session: string, at: number, text: string}} found
   * @param {string} text
   */
  row(found, text) {
    const session = this.sessions().find((each) => each.id === found.session);
    const title =
      this.everywhere.checked && session ? el("span", { class: "facts" }, titleOf(session)) : null;
    const words = el("span", {}, ...marked(found.text, text));
    const on = { click: () => this.onChosen(text) };
    return el("li", {}, el("a", { href: `#${found.session}/${found.at}`, on }, words, title));
  }
}

/**
 * The words around the first place where a text is, which is marked.
 *
 * @param {string} text
 * @param {string} wanted
 * @returns {Node[]}
 */
function marked(text, wanted) {
  const at = text.toLowerCase().indexOf(wanted.toLowerCase());
  if (at < 0) return [document.createTextNode(text.slice(0, 2 * AROUND))];
  const end = at + wanted.length;
  const start = Math.max(0, at - AROUND);
  return [
    document.createTextNode((start ? "…" : "") + text.slice(start, at)),
    el("mark", {}, text.slice(at, end)),
    document.createTextNode(
      text.slice(end, end + AROUND) + (end + AROUND < text.length ? "…" : ""),
    ),
  ];
}
