/**
 * The composer: the text of the next prompt, its attachments, and what is queued.
 *
 * @import {Connection} from "./connection.js"
 * @import {Facts, Queued} from "./contract.js"
 */

import { Attachments } from "./attachments.js";
import { Completion } from "./completion.js";
import { Lost } from "./connection.js";
import { button, byId, el, redraw } from "./elements.js";
import { SILENCE } from "./silence.js";
import { report } from "./status.js";

const KEPT = 100;

export class Composer {
  /**
   * @param {Connection} connection
   * @param {() => void} stop cancels the turn
   */
  constructor(connection, stop) {
    this.connection = connection;
    this.form = /** @type {HTMLFormElement} */ (byId("composer"));
    this.text = /** @type {HTMLTextAreaElement} */ (byId("prompt"));
    this.send = /** @type {HTMLButtonElement} */ (byId("send"));
    this.stop = /** @type {HTMLButtonElement} */ (byId("stop"));
    this.queue = /** @type {HTMLElement} */ (byId("queue"));
    this.attachments = new Attachments(this.form, this.text);
    this.completion = new Completion(this.text, connection);
    /** @type {Facts} */
    this.facts = {};
    this.session = "";
    this.canPrompt = false;
    /** @type {string[]} */
    this.history = read("history");
    this.recalled = this.history.length;
    this.draft = "";
    this.heldUntil = 0;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.stop.addEventListener("click", stop);
    this.text.addEventListener("keydown", (event) => this.key(event));
    this.text.addEventListener("input", () => this.edited());
  }

  /** @param {string} session whose prompt is written from now on */
  show(session) {
    if (session === this.session) return;
    this.session = session;
    this.text.value = sessionStorage.getItem(`draft ${session}`) ?? "";
    this.attachments.clear();
    this.fit();
  }

  /**
   * @param {Facts} facts
   * @param {boolean} isOpen
   * @param {boolean} mayControl
   */
  refresh(facts, isOpen, mayControl) {
    this.facts = facts;
    const { session } = facts;
    const running = ["running", "waiting"].includes(session?.state ?? "");
    this.canPrompt = isOpen && mayControl && session?.canPrompt !== false && !!session;
    this.send.disabled = !this.canPrompt;
    this.send.textContent = running ? "Queue" : "Send";
    this.stop.hidden = !running || !mayControl;
    this.stop.disabled = !isOpen;
    this.text.readOnly = !mayControl;
    this.text.placeholder = mayControl ? "Write to the agent" : "You may look, but not write";
    this.attachments.allow(session?.capabilities ?? {});
    this.completion.commands = facts.commands ?? [];
    this.drawQueue(facts.queue ?? [], mayControl);
  }

  focus() {
    this.text.focus();
  }

  /** Until a silence Enter sends nothing: what is typed may still be meant for a question. */
  hold() {
    this.heldUntil = performance.now() + SILENCE;
  }

  // ---- sending

  async submit() {
    const text = this.text.value;
    const attachments = this.attachments.taken();
    if (!text.trim() && !attachments.length) return;
    if (!this.canPrompt) {
      report("It cannot be sent now. Your text stays here.", "warning");
      return;
    }
    this.text.value = "";
    this.attachments.clear();
    this.edited();
    this.remember(text);
    try {
      await this.connection.request("prompt", { text, attachments });
    } catch (error) {
      // nothing is repeated by itself: the person sees whether it arrived
      const unsure = error instanceof Lost;
      const words = unsure
        ? "The connection was lost while your prompt was sent. See whether it is above before you send it again."
        : /** @type {Error} */ (error).message;
      report(words, "error");
      this.text.value = this.text.value ? `${text}\n${this.text.value}` : text;
      this.attachments.restore(attachments);
      this.edited();
    }
  }

  /** @param {string} text */
  remember(text) {
    if (text.trim() && this.history.at(-1) !== text) this.history.push(text);
    this.history = this.history.slice(-KEPT);
    this.recalled = this.history.length;
    write("history", this.history);
  }

  edited() {
    this.fit();
    if (this.text.value) sessionStorage.setItem(`draft ${this.session}`, this.text.value);
    else sessionStorage.removeItem(`draft ${this.session}`);
  }

  fit() {
    this.text.style.height = "auto";
    this.text.style.height = `${this.text.scrollHeight + 2}px`;
  }

  // ---- keys

  /** @param {KeyboardEvent} event */
  key(event) {
    // an input method takes Enter to end a word
    if (event.isComposing || this.completion.key(event)) return;
    const { key } = event;
    const isHeld = performance.now() < this.heldUntil;
    if (isHeld) this.hold();
    if (key === "Enter" && isHeld) event.preventDefault();
    else if (
      key === "Enter" &&
      !event.shiftKey &&
      !event.altKey &&
      !event.ctrlKey &&
      !event.metaKey
    ) {
      event.preventDefault();
      this.submit();
    } else if (key === "ArrowUp" && this.mayRecall(0)) this.recall(event, -1);
    else if (key === "ArrowDown" && this.mayRecall(this.text.value.length)) this.recall(event, 1);
  }

  /** @param {number} edge where the cursor has to be, unless the text was recalled */
  mayRecall(edge) {
    const { selectionStart, selectionEnd, value } = this.text;
    if (selectionStart !== selectionEnd) return false;
    return selectionStart === edge || (value !== "" && value === this.history[this.recalled]);
  }

  /**
   * @param {KeyboardEvent} event
   * @param {1 | -1} step
   */
  recall(event, step) {
    const to = this.recalled + step;
    if (to < 0 || to > this.history.length) return;
    event.preventDefault();
    if (this.recalled === this.history.length) this.draft = this.text.value;
    this.recalled = to;
    this.text.value = to === this.history.length ? this.draft : this.history[to];
    this.edited();
  }

  // ---- what is queued

  /**
   * @param {Queued[]} queued
   * @param {boolean} mayControl
   */
  drawQueue(queued, mayControl) {
    this.queue.hidden = !queued.length;
    redraw(this.queue, [queued, mayControl], () =>
      queued.map((each) => this.queuedItem(each, mayControl)),
    );
  }

  /**
   * @param {Queued} item
   * @param {boolean} mayControl
   */
  queuedItem(item, mayControl) {
    const files = item.attachments?.length
      ? ` (${count(item.attachments.length, "attachment")})`
      : "";
    const state = item.held ? "Held" : "Queued";
    const words = el("span", { class: "words" }, el("b", {}, `${state}: `), item.text + files);
    const made = el("li", { class: item.held ? "held" : "" }, words);
    if (item.by) made.append(el("span", { class: "facts" }, `by ${item.by}`));
    if (!mayControl) return made;
    const name = item.text.slice(0, 40);
    if (item.held)
      made.append(this.action(`Send ${name}`, "Send", () => this.ask("queue.send", item)));
    made.append(this.action(`Edit ${name}`, "Edit", () => this.edit(made, item)));
    made.append(this.action(`Remove ${name}`, "Remove", () => this.ask("queue.remove", item)));
    return made;
  }

  /**
   * @param {string} label
   * @param {string} text
   * @param {() => void} press
   */
  action(label, text, press) {
    return button(text, press, { class: "quiet", "aria-label": label, "data-part": label });
  }

  /**
   * @param {string} type
   * @param {Queued} item
   * @param {object} [fields]
   */
  ask(type, item, fields = {}) {
    const { item: id } = item;
    this.connection
      .request(type, { item: id, ...fields })
      .catch((error) => report(error.message, "error"));
  }

  /**
   * @param {HTMLElement} row
   * @param {Queued} item
   */
  edit(row, item) {
    const area = el("textarea", { rows: "2", "aria-label": "Edit the queued prompt" });
    area.value = item.text;
    const save = () => {
      if (area.value.trim()) this.ask("queue.edit", item, { text: area.value });
      leave();
    };
    const leave = () => {
      row.replaceWith(this.queuedItem(item, true));
      this.focus();
    };
    area.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter" && !event.shiftKey) save();
      else if (event.key === "Escape") leave();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    row.replaceChildren(area, button("Save", save), button("Leave", leave, { class: "quiet" }));
    area.focus();
  }
}

/**
 * @param {number} number
 * @param {string} noun
 */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/**
 * @param {string} name
 * @returns {string[]}
 */
function read(name) {
  try {
    const found = JSON.parse(sessionStorage.getItem(name) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each === "string") : [];
  } catch {
    return [];
  }
}

/**
 * @param {string} name
 * @param {string[]} texts
 */
function write(name, texts) {
  try {
    sessionStorage.setItem(name, JSON.stringify(texts));
  } catch {
    // there is no room: then it is not kept over a reload
  }
}
