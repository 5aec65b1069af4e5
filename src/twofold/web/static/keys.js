/**
 * The keys of the page, and the dialog that lists them. Keys of one sign work while the focus is
 * in no text field; who dictates can switch them off.
 *
 * @typedef {{key: string, words: string, run?: () => void}} Binding
 */

import { byId, el } from "./elements.js";
import { isTextField } from "./questions.js";

/** Keys that are handled where the focus is. */
const ELSEWHERE = [
  ["Enter", "send the prompt, or queue it during a turn"],
  ["Shift+Enter", "new line"],
  ["↑ ↓", "recall what you sent before"],
  ["Tab", "complete a command or a path; in an empty line, go to the question"],
  ["y a n d", "answer a question: allow once, always, reject once, always"],
  ["r", "reject and say why"],
];

export class Keys {
  /**
   * @param {Binding[]} bindings
   * @param {(event: KeyboardEvent) => boolean} question takes a key for the question
   * @param {() => void} leave leaves what is open
   */
  constructor(bindings, question, leave) {
    this.bindings = bindings;
    this.question = question;
    this.leave = leave;
    this.dialog = /** @type {HTMLDialogElement} */ (byId("help"));
    this.single = /** @type {HTMLInputElement} */ (byId("single-keys"));
    this.single.checked = localStorage.getItem("single keys") !== "no";
    this.single.addEventListener("change", () => {
      localStorage.setItem("single keys", this.single.checked ? "yes" : "no");
    });
    byId("help-close").addEventListener("click", () => this.dialog.close());
    byId("help-open").addEventListener("click", () => this.help());
    addEventListener("keydown", (event) => this.key(event));
  }

  help() {
    const all = [...ELSEWHERE, ...this.bindings.map(({ key, words }) => [key, words])];
    const rows = all.flatMap(([key, words]) => [
      el("dt", {}, el("kbd", {}, key)),
      el("dd", {}, words),
    ]);
    byId("keys").replaceChildren(...rows);
    this.dialog.showModal();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]"))
      return;
    const name = nameOf(event);
    if (name === "Escape") {
      event.preventDefault();
      this.leave();
      return;
    }
    const isSingle = name.length === 1;
    if (isSingle && (isTextField(event.target) || !this.single.checked)) return;
    if (isSingle && this.question(event)) return;
    const found = this.bindings.find((each) => each.key === name);
    if (!found) return;
    event.preventDefault();
    if (found.run) found.run();
    else this.help();
  }
}

/** @param {KeyboardEvent} event */
function nameOf(event) {
  if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key === "p") return "Ctrl+P";
  if (event.ctrlKey || event.metaKey) return "";
  if (event.altKey) return `Alt+${event.key.replace("Arrow", "")}`;
  return event.key;
}
