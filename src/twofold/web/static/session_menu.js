/**
 * What can be done with the session that is shown, and why it failed if it did.
 *
 * @import {Facts} from "./contract.js"
 * @import {Mirror} from "./mirror.js"
 * @import {Sessions} from "./sessions.js"
 */

import { button, byId, el, redraw } from "./elements.js";
import { printSession } from "./print.js";
import { titleOf } from "./sessions.js";

const FORMATS = [
  ["markdown", "Export as Markdown"],
  ["html", "Export as a page"],
  ["jsonl", "Export as JSON Lines"],
];

export class SessionMenu {
  /**
   * @param {Sessions} sessions
   * @param {() => Mirror | null} current
   */
  constructor(sessions, current) {
    this.sessions = sessions;
    this.current = current;
    this.menu = /** @type {HTMLElement} */ (byId("session-menu"));
    this.opener = /** @type {HTMLButtonElement} */ (byId("session-menu-open"));
    this.failure = /** @type {HTMLElement} */ (byId("failure"));
    this.dialog = /** @type {HTMLDialogElement} */ (byId("rename"));
    this.name = /** @type {HTMLInputElement} */ (byId("rename-text"));
    this.confirm = /** @type {HTMLDialogElement} */ (byId("confirm"));
    byId("rename-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.dialog.close();
      const mirror = this.current();
      if (mirror) this.sessions.act("rename", mirror.id, { title: this.name.value.trim() });
    });
    byId("rename-cancel").addEventListener("click", () => this.dialog.close());
    byId("confirm-cancel").addEventListener("click", () => this.confirm.close());
  }

  show() {
    if (!this.opener.disabled) this.opener.click();
  }

  /**
   * @param {Facts} facts
   * @param {boolean} enabled
   */
  refresh(facts, enabled) {
    const { session } = facts;
    this.opener.disabled = !session;
    redraw(this.menu, [session?.id, session?.state, enabled], () =>
      session ? this.items(session, enabled) : [],
    );
    this.drawFailure(session, enabled);
  }

  /**
   * @param {NonNullable<Facts["session"]>} session
   * @param {boolean} enabled
   */
  items(session, enabled) {
    const item = (/** @type {string} */ text, /** @type {() => void} */ run) =>
      button(
        text,
        () => {
          this.menu.hidePopover();
          run();
        },
        { disabled: !enabled, class: "item", "data-part": text },
      );
    const exports = FORMATS.map(([format, text]) =>
      el(
        "a",
        {
          class: "item",
          href: `/session/${encodeURIComponent(session.id)}/export?format=${format}`,
          download: "",
        },
        text,
      ),
    );
    return [
      item("Rename …", () => this.rename()),
      item("Start the agent again", () => this.sessions.act("restart", session.id)),
      ...exports,
      button(
        "Print …",
        () => {
          this.menu.hidePopover();
          printSession(session.id);
        },
        { class: "item", "data-part": "print" },
      ),
      item("Close the session …", () =>
        this.ask("close", "Close this session? Its agent is ended.", "Close it"),
      ),
      item("Delete the session …", () =>
        this.ask("delete", "Delete this session, also where the agent keeps it?", "Delete it"),
      ),
    ];
  }

  rename() {
    const session = this.current()?.facts.session;
    if (!session) return;
    this.name.value = titleOf(session);
    this.dialog.showModal();
    this.name.select();
  }

  /**
   * @param {"close" | "delete"} what
   * @param {string} words
   * @param {string} yes
   */
  ask(what, words, yes) {
    const mirror = this.current();
    if (!mirror) return;
    byId("confirm-text").textContent = words;
    const run = button(
      yes,
      () => {
        this.confirm.close();
        this.sessions.act(what, mirror.id);
      },
      { class: "reject" },
    );
    byId("confirm-yes").replaceChildren(run);
    this.confirm.showModal();
  }

  /**
   * @param {Facts["session"]} session
   * @param {boolean} enabled
   */
  drawFailure(session, enabled) {
    const failure =
      session?.state === "failed" ? (session.failure ?? "The agent has ended.") : null;
    this.failure.hidden = failure === null;
    redraw(this.failure, [failure, enabled, session?.id], () => {
      if (failure === null || !session) return [];
      const again = button(
        "Start the agent again",
        () => this.sessions.act("restart", session.id),
        { disabled: !enabled },
      );
      return [el("p", { class: "text" }, failure), again];
    });
  }
}
