/**
 * The dialog for a new session, or one that the agent kept.
 *
 * @import {Connection} from "./connection.js"
 * @import {Welcome} from "./contract.js"
 */

import { button, byId, el } from "./elements.js";

export class NewSession {
  /**
   * @param {Connection} connection
   * @param {(session: string) => void} opened
   */
  constructor(connection, opened) {
    this.connection = connection;
    this.opened = opened;
    this.dialog = /** @type {HTMLDialogElement} */ (byId("new-session"));
    this.form = /** @type {HTMLFormElement} */ (byId("new-session-form"));
    this.agent = /** @type {HTMLSelectElement} */ (byId("new-agent"));
    this.cwd = /** @type {HTMLInputElement} */ (byId("new-cwd"));
    this.mode = /** @type {HTMLInputElement} */ (byId("new-mode"));
    this.kept = /** @type {HTMLElement} */ (byId("kept-sessions"));
    this.error = /** @type {HTMLElement} */ (byId("new-error"));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.start("session.new", { ...this.fields(), mode: this.mode.value.trim() || undefined });
    });
    byId("find-kept").addEventListener("click", () => this.find());
    byId("new-cancel").addEventListener("click", () => this.dialog.close());
  }

  /** @param {Welcome} welcome */
  refresh(welcome) {
    const options = welcome.agents.map(({ name, installed }) =>
      el(
        "option",
        { value: name, disabled: installed === false },
        installed === false ? `${name} (not installed)` : name,
      ),
    );
    const chosen = this.agent.value;
    this.agent.replaceChildren(...options);
    if (chosen) this.agent.value = chosen;
    if (!this.cwd.value) this.cwd.value = welcome.cwd;
  }

  show() {
    this.error.textContent = "";
    this.kept.replaceChildren();
    this.dialog.showModal();
  }

  fields() {
    return { agent: this.agent.value || undefined, cwd: this.cwd.value.trim() || undefined };
  }

  /**
   * @param {string} type
   * @param {object} fields
   */
  async start(type, fields) {
    this.error.textContent = "";
    this.form.classList.add("busy");
    try {
      const { session } = await this.connection.request(type, fields);
      this.dialog.close();
      this.opened(session);
    } catch (error) {
      this.error.textContent = /** @type {Error} */ (error).message;
    } finally {
      this.form.classList.remove("busy");
    }
  }

  /** Lists the sessions that the agent kept. */
  async find() {
    this.error.textContent = "";
    this.kept.replaceChildren(el("li", { class: "facts" }, "Asking the agent …"));
    try {
      const { sessions = [] } = await this.connection.request("session.resumable", this.fields());
      const rows = sessions.map((/** @type {any} */ each) => this.keptRow(each));
      this.kept.replaceChildren(
        ...(rows.length ? rows : [el("li", { class: "facts" }, "The agent knows none.")]),
      );
    } catch (error) {
      this.kept.replaceChildren();
      this.error.textContent = /** @type {Error} */ (error).message;
    }
  }

  /** @param {{session: string, title?: string, cwd?: string, updated?: string}} kept */
  keptRow(kept) {
    const { session } = kept;
    const resume = () =>
      this.start("session.resume", {
        ...this.fields(),
        session,
        cwd: kept.cwd || this.fields().cwd,
      });
    const updated = new Date(kept.updated ?? "");
    const time = Number.isNaN(updated.valueOf()) ? "" : updated.toLocaleString();
    const facts = [kept.cwd, time].filter(Boolean).join(" · ");
    const title = button(kept.title || session, resume, { class: "quiet" });
    return el("li", {}, title, " ", el("span", { class: "facts" }, facts));
  }
}
