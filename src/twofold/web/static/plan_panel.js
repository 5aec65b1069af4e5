/** The plan of the agent above the composer: what it does now, and all steps when it is opened. */

import { plan } from "./blocks/plan.js";
import { byId, redraw } from "./elements.js";

export class PlanPanel {
  constructor() {
    this.panel = /** @type {HTMLDetailsElement} */ (byId("plan"));
    this.summary = /** @type {HTMLElement} */ (byId("plan-summary"));
    this.body = /** @type {HTMLElement} */ (byId("plan-body"));
    this.panel.open = localStorage.getItem("plan") === "open";
    this.panel.addEventListener("toggle", () => {
      localStorage.setItem("plan", this.panel.open ? "open" : "closed");
    });
  }

  /** @param {import("./contract.js").Block[]} every */
  refresh(every) {
    const plans = every.filter((each) => each.steps?.length || each.text);
    this.panel.hidden = !plans.length;
    if (!plans.length) return;
    redraw(this.body, plans, () => plans.map(plan));
    this.summary.textContent = inShort(plans);
  }
}

/** @param {import("./contract.js").Block[]} plans */
function inShort(plans) {
  const steps = plans.flatMap((each) => each.steps ?? []);
  if (!steps.length) return "Plan";
  const done = steps.filter((/** @type {any} */ each) => each.status === "completed").length;
  const now = steps.find((/** @type {any} */ each) => each.status === "in_progress");
  return `Plan ${done}/${steps.length}${now ? `: ${now.text}` : ""}`;
}
