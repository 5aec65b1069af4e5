/**
 * Draws a plan: its steps with their marks, or its text.
 *
 * @import {Block} from "../contract.js"
 */

import { el } from "../elements.js";

/**
 * @param {Block} block
 * @returns {HTMLElement}
 */
export function plan(block) {
  const steps = /** @type {{mark?: string, status?: string, text: string}[]} */ (block.steps ?? []);
  const text = block.text ? el("p", { class: "text" }, block.text) : null;
  const list = el("ol", { class: "plan" });
  for (const step of steps) {
    const mark = el("span", { class: "mark", "aria-hidden": "true" }, step.mark ?? "");
    const status = el(
      "span",
      { class: "hidden-label" },
      ` (${(step.status ?? "").replace("_", " ")})`,
    );
    list.append(el("li", { class: step.status ?? "" }, mark, " ", step.text, status));
  }
  return el("div", {}, text, steps.length ? list : null);
}
