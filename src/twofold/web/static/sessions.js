/**
 * The list of sessions, and what can be done with them.
 *
 * @import {Connection} from "./connection.js"
 * @import {SessionFacts} from "./contract.js"
 */

import { byId, el, redraw } from "./elements.js";
import { report } from "./status.js";

/** @type {Record<string, string>} */
const STATES = {
  starting: "starting",
  running: "working",
  waiting: "waits for you",
  idle: "idle",
  cold: "asleep",
  failed: "failed",
};

/** @param {{title?: string | null}} session */
export function titleOf(session) {
  return session.title || "New session";
}

export class Sessions {
  /** @param {Connection} connection */
  constructor(connection) {
    this.connection = connection;
    this.list = /** @type {HTMLElement} */ (byId("sessions"));
    this.nav = /** @type {HTMLElement} */ (byId("sidebar"));
    /** @type {SessionFacts[]} */
    this.sessions = [];
    this.current = "";
    this.minute = 0;
    setInterval(() => this.draw(), 30_000);
  }

  /** @param {SessionFacts[]} sessions */
  refresh(sessions) {
    this.sessions = sessions;
    this.draw();
  }

  /** @param {string} id */
  select(id) {
    this.current = id;
    this.draw();
  }

  draw() {
    const now = Date.now() / 1000;
    const shown = this.sessions.map((each) => ({
      ...each,
      ago: ago(now - (each.activity ?? now)),
    }));
    redraw(this.list, [shown, this.current], () => shown.map((each) => this.row(each)));
  }

  /** @param {SessionFacts & {ago: string}} session */
  row(session) {
    const state = STATES[session.state] ? session.state : "idle";
    const where = session.cwd.split("/").filter(Boolean).at(-1) ?? session.cwd;
    const asleep = state === "cold" ? STATES.cold : "";
    const facts = [session.agent, where, session.ago, asleep].filter(Boolean).join(" · ");
    const words = session.words || STATES[state];
    const link = el(
      "a",
      {
        href: `#${session.id}`,
        "data-part": session.id,
        "aria-current": session.id === this.current ? "page" : undefined,
        title: session.cwd,
      },
      el("span", { class: `dot ${state}`, "aria-hidden": "true" }),
      el("span", { class: "session-title" }, titleOf(session)),
      el("span", { class: "facts" }, facts),
      el("span", { class: `state ${state}` }, words),
    );
    return el("li", {}, link);
  }

  /**
   * The session before or after the one that is shown.
   *
   * @param {1 | -1} step
   */
  neighbour(step) {
    const at = this.sessions.findIndex((each) => each.id === this.current);
    return this.sessions[at + step]?.id;
  }

  /**
   * Asks the server to do something with a session.
   *
   * @param {"close" | "delete" | "restart" | "rename"} what
   * @param {string} session
   * @param {object} [fields]
   */
  async act(what, session, fields = {}) {
    try {
      await this.connection.request(`session.${what}`, { session, ...fields });
    } catch (error) {
      report(/** @type {Error} */ (error).message, "error");
    }
  }
}

/** @param {number} seconds */
function ago(seconds) {
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}
