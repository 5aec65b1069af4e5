/**
 * The bar above the conversation: title and state of the session, mode, model and options, usage.
 *
 * @import {Connection} from "./connection.js"
 * @import {Control, Facts} from "./contract.js"
 */

import { duration, secondsSince } from "./clock.js";
import { byId, el, redraw } from "./elements.js";
import { titleOf } from "./sessions.js";
import { report } from "./status.js";

export class Controls {
  /** @param {Connection} connection */
  constructor(connection) {
    this.connection = connection;
    this.title = /** @type {HTMLElement} */ (byId("title"));
    this.state = /** @type {HTMLElement} */ (byId("state"));
    this.controls = /** @type {HTMLElement} */ (byId("controls"));
    this.usage = /** @type {HTMLElement} */ (byId("usage"));
    /** @type {number | null} */
    this.since = null;
    this.words = "";
    setInterval(() => this.drawState(), 1000);
  }

  /**
   * @param {Facts} facts
   * @param {boolean} enabled
   */
  refresh(facts, enabled) {
    const { session, controls = [] } = facts;
    const title = session ? titleOf(session) : "Twofold";
    this.title.textContent = title;
    document.title = session ? `${marks[session.state] ?? ""}${title} · Twofold` : "Twofold";
    this.since = session?.since ?? null;
    this.words = session ? stateWords(facts) : "";
    this.state.className = `state ${session?.state ?? ""}`;
    this.drawState();
    redraw(this.controls, [controls, enabled], () =>
      controls.map((each) => this.control(each, enabled)),
    );
    this.usage.textContent = facts.usage?.words ?? "";
  }

  drawState() {
    const running = ["running", "waiting"].includes(this.state.classList.item(1) ?? "");
    const time = running && this.since ? ` ${duration(secondsSince(this.since))}` : "";
    const text = this.words + time;
    if (this.state.textContent !== text) this.state.textContent = text;
  }

  /**
   * @param {Control} control
   * @param {boolean} enabled
   */
  control(control, enabled) {
    const { id, name, kind, value, choices = [] } = control;
    const part = `control ${id}`;
    const set = (/** @type {string | boolean} */ wanted, /** @type {() => void} */ back) => {
      this.connection.request("option", { control: id, value: wanted }).catch((error) => {
        back();
        report(error.message, "error");
      });
    };
    if (kind === "boolean") {
      const box = el("input", {
        type: "checkbox",
        checked: value === true,
        disabled: !enabled,
        "data-part": part,
      });
      box.addEventListener("change", () => set(box.checked, () => (box.checked = value === true)));
      return el("label", {}, box, ` ${name}`);
    }
    // what is set may be none of what is offered
    const known = choices.some((choice) => choice.value === value);
    const offered = known ? choices : [{ value: String(value), name: String(value) }, ...choices];
    const options = offered.map((choice) =>
      el("option", { value: choice.value, selected: choice.value === value }, choice.name),
    );
    const select = el("select", { disabled: !enabled, "data-part": part }, ...options);
    select.addEventListener("change", () =>
      set(select.value, () => (select.value = String(value))),
    );
    return el("label", {}, el("span", {}, name), select);
  }
}

/** @type {Record<string, string>} */
const marks = { waiting: "? ", running: "… ", failed: "! " };

/** @param {Facts} facts */
function stateWords(facts) {
  switch (facts.session?.state) {
    case "starting":
      return "starting";
    case "running":
      return "working";
    case "waiting":
      return "waits for your answer";
    case "failed":
      return "failed";
    case "cold":
      return "asleep: your next prompt wakes the agent";
    default:
      return "ready";
  }
}
