/**
 * The agent's questions: what exactly would happen, and the options, one question at a time.
 *
 * A key stands for the kind of an option. It counts while the focus is in no text field, and after
 * a second without any key. There is no default: Enter presses what has the focus, nothing else.
 *
 * @import {Connection} from "./connection.js"
 * @import {Location, Piece, Question} from "./contract.js"
 */

import { diff } from "./blocks/diff.js";
import { locationList } from "./blocks/locations.js";
import { unknown } from "./blocks/media.js";
import { commandText } from "./blocks/terminal.js";
import { button, byId, el } from "./elements.js";
import { READ, Silence } from "./silence.js";
import { report } from "./status.js";

/** @type {Record<string, string>} */
const KEYS = { allow_once: "y", allow_always: "a", reject_once: "n", reject_always: "d" };
const ALWAYS = new Set(["allow_always", "reject_always"]);

/** @typedef {{key: string, option: {option: string, name: string, kind: string}}} Choice */

/**
 * A key for each option: by its kind if no other option has that kind, else a number.
 *
 * @param {Question} question
 * @returns {Choice[]}
 */
export function choices(question) {
  let number = 0;
  return question.options.map((option) => {
    const alone = question.options.filter((each) => each.kind === option.kind).length === 1;
    const key = alone && Object.hasOwn(KEYS, option.kind) ? KEYS[option.kind] : "";
    if (key || number >= 9) return { key, option };
    number += 1;
    return { key: String(number), option };
  });
}

export class Questions {
  /**
   * @param {Connection} connection
   * @param {(location: Location) => void} openFile
   * @param {() => void} leave gives the focus back where it was, or to the composer
   */
  constructor(connection, openFile, leave) {
    this.connection = connection;
    this.openFile = openFile;
    this.leave = leave;
    this.card = /** @type {HTMLElement} */ (byId("question"));
    this.silence = new Silence(() => this.showKeys());
    /** @type {Question | null} the one that is shown */
    this.shown = null;
    this.written = "";
    this.waiting = 0;
    /** The key that has to be pressed once more. */
    this.again = "";
    /** @type {Element | null} what had the focus before */
    this.before = null;
    /** @type {Set<string>} those that were answered here, until the server says so */
    this.answered = new Set();
    /** Whether the focus was last on the card. */
    this.holdsFocus = false;
    document.addEventListener("focusin", (event) => {
      this.holdsFocus = event.target instanceof Node && this.card.contains(event.target);
      this.showKeys();
    });
    document.addEventListener("focusout", () => queueMicrotask(() => this.showKeys()));
    this.isOpen = true;
    this.mayControl = true;
    /** @type {Map<string, boolean>} */
    this.open = new Map();
    this.card.addEventListener("keydown", (event) => this.cardKey(event));
  }

  /**
   * @param {Question[]} questions
   * @param {boolean} isOpen
   * @param {boolean} mayControl
   */
  refresh(questions, isOpen, mayControl) {
    const every = new Set(questions.map((each) => each.question));
    for (const each of [...this.answered]) if (!every.has(each)) this.answered.delete(each);
    const waiting = questions.filter((each) => !this.answered.has(each.question));
    const question = waiting[0] ?? null;
    const written = JSON.stringify([question, isOpen, mayControl, waiting.length]);
    if (written === this.written) return;
    this.written = written;
    this.isOpen = isOpen;
    this.mayControl = mayControl;
    this.waiting = waiting.length;
    const isAnother = question?.question !== this.shown?.question;
    if (question && isAnother) this.open.clear();
    const reason = this.card.querySelector("textarea");
    // the reason that is being written stays, unless the question is gone
    if (reason && !isAnother && question) return;
    if (question) this.draw(question, isAnother);
    else this.hide();
    this.shown = question;
    this.showKeys();
  }

  hide() {
    const had = this.hadFocus();
    const reason = this.card.querySelector("textarea")?.value ?? "";
    this.card.hidden = true;
    this.card.replaceChildren();
    if (had) this.giveBack();
    if (reason.trim()) report(`The question is gone. You were writing: ${reason}`, "warning");
  }

  /** Whether the focus is on the card, or was on something of it that is gone. */
  hadFocus() {
    const focused = document.activeElement;
    if (this.card.contains(focused)) return true;
    return focused === document.body && this.shown !== null && this.holdsFocus;
  }

  giveBack() {
    const { before } = this;
    this.before = null;
    const isThere = before instanceof HTMLElement && before.isConnected && before !== document.body;
    if (isThere) before.focus({ preventScroll: true });
    else this.leave();
  }

  /** Gives the focus to the question. */
  focus() {
    if (this.card.hidden || this.card.contains(document.activeElement)) return;
    this.before = document.activeElement;
    this.card.focus();
  }

  /**
   * @param {Question} question
   * @param {boolean} isAnother
   */
  draw(question, isAnother) {
    const had = this.hadFocus();
    this.again = "";
    this.card.hidden = false;
    this.card.replaceChildren(...this.content(question));
    this.silence.begin();
    this.showKeys();
    for (const each of this.card.querySelectorAll("button.answer")) {
      const answer = /** @type {HTMLButtonElement} */ (each);
      answer.disabled = true;
      setTimeout(() => (answer.disabled = !this.isOpen || !this.mayControl), READ);
    }
    // the focus stays in a text field; otherwise the question takes it
    if (had || (isAnother && !isTextField(document.activeElement))) {
      if (!had) this.before = document.activeElement;
      this.card.focus({ preventScroll: true });
    }
  }

  /**
   * @param {Question} question
   * @returns {Node[]}
   */
  content(question) {
    const kind = question.kind
      ? el("span", { class: "facts" }, question.kind.replaceAll("_", " "))
      : null;
    const title = el(
      "h2",
      { id: "question-title" },
      question.title || "May the agent go on?",
      " ",
      kind,
    );
    const parts = el("div", { class: "parts", id: "question-parts", tabindex: "0", role: "group" });
    parts.setAttribute("aria-label", "What would happen");
    parts.append(...question.parts.map((part, number) => this.part(part, number)));
    const more = this.waiting - 1;
    const others = more
      ? el(
          "p",
          { class: "facts" },
          `${more} more ${more === 1 ? "question waits" : "questions wait"}`,
        )
      : null;
    const made = [
      title,
      parts,
      question.why ? el("p", { class: "facts why" }, question.why) : null,
      this.mayControl ? this.answers(question) : null,
      this.hint(),
      others,
    ];
    return made.filter((each) => each !== null);
  }

  hint() {
    return el("p", { class: "facts hint" });
  }

  /** @param {Question} question */
  answers(question) {
    const made = el("div", { class: "answers" });
    for (const { key, option } of choices(question)) {
      const css = option.kind.startsWith("allow")
        ? "answer allow"
        : option.kind.startsWith("reject")
          ? "answer reject"
          : "answer";
      const press = () => this.answer(question, option);
      const label = button(option.name, press, {
        class: css,
        "data-key": key,
        "data-part": option.option,
      });
      if (key) label.append(" ", el("kbd", {}, key));
      made.append(label);
    }
    if (question.canReason) {
      const write = button("Reject and say why", () => this.askReason(question), {
        class: "answer reject",
        "data-key": "r",
      });
      write.append(" ", el("kbd", {}, "r"));
      made.append(write);
    }
    return made;
  }

  /**
   * @param {Piece & {[field: string]: any}} part
   * @param {number} number
   * @returns {Node}
   */
  part(part, number) {
    const context = {
      key: "question",
      wide: false,
      isOpen: (/** @type {string} */ name, byDefault = false) => this.open.get(name) ?? byDefault,
      setOpen: (/** @type {string} */ name, open = true) => void this.open.set(name, open),
      openFile: this.openFile,
      media: () => Promise.reject(new Error("not here")),
    };
    switch (part.type) {
      case "CommandPart": {
        const where = part.cwd ? el("p", { class: "facts" }, `in ${part.cwd}`) : null;
        const name = part.name ? el("p", { class: "facts" }, part.name) : null;
        const words = el("pre", { class: "terminal", tabindex: "0" }, commandText(part.text ?? ""));
        return el("div", {}, name, words, where);
      }
      case "PathsPart":
        return locationList(part.locations ?? [], context) ?? el("p");
      case "TextPart":
        return el("p", { class: "text agents-words" }, part.text);
      case "DiffItem":
        return diff(part.lines ?? [], context, `part ${number}`);
      case "ValuesPart":
        return values(part);
      case "NotePart":
        return el("p", { class: "facts" }, part.text);
      default:
        return unknown(`[${part.type}]`, part, context, `part ${number}`);
    }
  }

  // ---- answering

  /**
   * @param {Question} question
   * @param {{option: string, name: string}} option
   * @param {string} [reason]
   */
  async answer(question, option, reason) {
    this.answered.add(question.question);
    this.card.querySelector("textarea")?.remove();
    this.written = "";
    this.onAnswered(); // the next question, or none
    try {
      const fields = { question: question.question, option: option.option };
      await this.connection.request("answer", reason ? { ...fields, reason } : fields);
    } catch (error) {
      this.answered.delete(question.question);
      report(/** @type {Error} */ (error).message, "warning");
      this.onAnswered();
    }
  }

  /** Replaced by the page: draws the question that is the first now. */
  onAnswered() {}

  /** @param {Question} question */
  askReason(question) {
    const option =
      question.options.find((each) => each.kind === "reject_once") ??
      question.options.find((each) => each.kind.startsWith("reject"));
    const answers = this.card.querySelector(".answers");
    if (!option || !answers) return;
    const text = el("textarea", { rows: "2", "aria-label": "What the agent should do instead" });
    text.placeholder = "What the agent should do instead";
    const opened = performance.now();
    const send = () => {
      if (text.value.trim()) this.answer(question, option, text.value.trim());
    };
    const back = () => {
      text.value = "";
      this.written = "";
      this.draw(question, false);
      this.card.focus();
    };
    text.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      const isSend = event.key === "Enter" && !event.shiftKey;
      if (!isSend && event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      // an Enter in the same breath as the key that opened this was meant for something else
      if (isSend && performance.now() - opened > READ) send();
      else if (!isSend) back();
    });
    const reject = button("Reject", send, { class: "reject" });
    answers.replaceChildren(text, reject, button("Back", back, { class: "quiet" }));
    this.hintElement()?.replaceChildren(
      "Enter rejects and sends these words as the next prompt. Esc goes back.",
    );
    text.focus();
  }

  hintElement() {
    return this.card.querySelector(".hint");
  }

  // ---- keys

  /** Shows whether a key would answer now. */
  showKeys() {
    const hint = this.hintElement();
    if (!hint || this.card.querySelector("textarea")) return;
    const quiet = this.silence.isQuiet && !isTextField(document.activeElement);
    this.card.classList.toggle("quiet-now", quiet);
    hint.replaceChildren(this.words(quiet));
  }

  /** @param {boolean} quiet */
  words(quiet) {
    if (!this.isOpen) return "There is no connection: it cannot be answered now.";
    if (!this.mayControl) return "A controller has to answer.";
    if (this.again) return `Press ${this.again} once more: this is for always.`;
    if (isTextField(document.activeElement))
      return "You are writing: keys do not answer. Press Tab in an empty line, or F6, to go to the question.";
    return quiet ? "A key answers." : "A key answers after one second without any key.";
  }

  /**
   * A key that was pressed while the focus is in no text field.
   *
   * @param {KeyboardEvent} event
   * @returns {boolean} whether it was for the question
   */
  key(event) {
    const { shown } = this;
    if (!shown || !this.mayControl || !this.isOpen || event.repeat) return false;
    const found = choices(shown).find((each) => each.key && each.key === event.key);
    const isReason = event.key === "r" && !!shown.canReason;
    if (!found && !isReason) {
      this.again = "";
      this.showKeys();
      return false;
    }
    if (!this.silence.wasQuiet) return true;
    if (isReason) {
      event.preventDefault();
      this.askReason(shown);
      return true;
    }
    if (found && ALWAYS.has(found.option.kind) && this.again !== found.key) {
      this.again = found.key;
      this.showKeys();
      return true;
    }
    event.preventDefault();
    if (found) this.answer(shown, found.option);
    return true;
  }

  /** @param {KeyboardEvent} event */
  cardKey(event) {
    if (event.key !== "Escape" || isTextField(event.target)) return;
    event.preventDefault();
    event.stopPropagation();
    this.giveBack();
  }
}

/** @param {unknown} element */
export function isTextField(element) {
  if (element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement) return true;
  return (
    element instanceof HTMLInputElement && !["checkbox", "radio", "button"].includes(element.type)
  );
}

/** @param {{[field: string]: any}} part */
function values(part) {
  const made = el("dl", { class: "values" });
  if (part.name) made.append(el("dt", { class: "facts" }, part.name));
  for (const each of part.values ?? []) {
    const name = el("span", { class: "name" }, each.text ? `${each.name}: ` : each.name);
    const row = el("dd", { class: "value" }, name, each.text ?? "");
    row.style.setProperty("--depth", String(Math.min(12, each.depth ?? 0)));
    made.append(row);
  }
  if (part.more)
    made.append(el("dd", { class: "facts" }, `${part.more} more values are not shown`));
  return made;
}
