/**
 * Completes slash commands at the beginning of a prompt, and `@` with the paths of files.
 *
 * @import {Connection} from "./connection.js"
 *
 * @typedef {{text: string, words?: string}} Offer what would be inserted, and what it is
 */

import { byId, el } from "./elements.js";

const MOST = 12;
const COMMAND = /^\/(\S*)$/;
const MENTION = /(?:^|\s)@("[^"]*|[^\s"]*)$/;

export class Completion {
  /**
   * @param {HTMLTextAreaElement} text
   * @param {Connection} connection
   */
  constructor(text, connection) {
    this.text = text;
    this.connection = connection;
    this.menu = /** @type {HTMLElement} */ (byId("completions"));
    /** @type {{name: string, description?: string, hint?: string}[]} */
    this.commands = [];
    /** @type {Offer[]} */
    this.offers = [];
    this.chosen = 0;
    this.start = 0;
    this.asked = 0;
    text.addEventListener("input", () => this.look());
    text.addEventListener("blur", () => this.close());
    // not taken by the focus, which stays in the text
    this.menu.addEventListener("mousedown", (event) => event.preventDefault());
  }

  /** Looks what could be completed where the cursor is. */
  async look() {
    const before = this.text.value.slice(0, this.text.selectionStart);
    this.asked += 1;
    const { asked } = this;
    const command = COMMAND.exec(before);
    if (command) {
      const found = this.commands.filter((each) => each.name.startsWith(command[1]));
      const offers = found.map((each) => ({
        text: `/${each.name} `,
        words: each.description || each.hint,
      }));
      this.show(offers, 0);
      return;
    }
    const mention = MENTION.exec(before);
    if (!mention) {
      this.close();
      return;
    }
    const start = before.length - mention[1].length - 1;
    try {
      const { paths = [] } = await this.connection.request("complete", {
        text: mention[1].replace('"', ""),
      });
      if (asked !== this.asked) return;
      this.show(
        paths.map((/** @type {string} */ path) => ({ text: mentionOf(path) })),
        start,
      );
    } catch {
      this.close();
    }
  }

  /**
   * @param {Offer[]} offers
   * @param {number} start where in the text an offer goes
   */
  show(offers, start) {
    this.offers = offers.slice(0, MOST);
    this.start = start;
    this.chosen = 0;
    if (!this.offers.length) {
      this.close();
      return;
    }
    this.menu.hidden = false;
    this.menu.replaceChildren(
      ...this.offers.map((offer, number) => {
        const words = offer.words ? el("span", { class: "facts" }, offer.words) : null;
        const made = el(
          "li",
          { role: "option", id: `offer-${number}` },
          offer.text.trim(),
          " ",
          words,
        );
        made.addEventListener("click", () => this.take(number));
        return made;
      }),
    );
    this.mark();
  }

  close() {
    this.asked += 1;
    this.offers = [];
    this.menu.hidden = true;
    this.menu.replaceChildren();
    this.text.removeAttribute("aria-activedescendant");
  }

  mark() {
    [...this.menu.children].forEach((each, number) => {
      each.setAttribute("aria-selected", String(number === this.chosen));
    });
    this.menu.children[this.chosen]?.scrollIntoView({ block: "nearest" });
    this.text.setAttribute("aria-activedescendant", `offer-${this.chosen}`);
  }

  /** @param {number} number */
  take(number) {
    const { value, selectionStart } = this.text;
    const { text } = this.offers[number];
    this.text.value = value.slice(0, this.start) + text + value.slice(selectionStart);
    const end = this.start + text.length;
    this.text.setSelectionRange(end, end);
    this.close();
    this.text.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /**
   * @param {KeyboardEvent} event
   * @returns {boolean} whether the key was for the menu
   */
  key(event) {
    const { length } = this.offers;
    if (!length) return false;
    if (event.key === "ArrowDown") this.chosen = (this.chosen + 1) % length;
    else if (event.key === "ArrowUp") this.chosen = (this.chosen + length - 1) % length;
    else if (event.key === "Tab" || event.key === "Enter") {
      // a command that is written in full is sent, not completed again
      const whole = this.text.value.trim() === this.offers[this.chosen].text.trim();
      if (event.key === "Enter" && (whole || event.shiftKey)) {
        this.close();
        return false;
      }
      this.take(this.chosen);
    } else if (event.key === "Escape") this.close();
    else return false;
    event.preventDefault();
    event.stopPropagation();
    this.mark();
    return true;
  }
}

/** @param {string} path */
function mentionOf(path) {
  const isFolder = path.endsWith("/");
  return /\s/.test(path) ? `@"${path}"${isFolder ? "" : " "}` : `@${path}${isFolder ? "" : " "}`;
}
