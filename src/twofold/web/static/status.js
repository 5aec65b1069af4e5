/** Short reports of the page: what failed, what somebody else did, the state of the connection. */

import { button, byId, el } from "./elements.js";

/** How long a report is shown, in milliseconds; errors stay until they are closed. */
const SHOWN = 8_000;
const MOST = 4;

/**
 * @param {string} text
 * @param {"info" | "warning" | "error"} [tone]
 */
export function report(text, tone = "info") {
  const list = /** @type {HTMLElement} */ (byId("reports"));
  const close = button("×", () => made.remove(), {
    class: "quiet",
    "aria-label": "Close this report",
  });
  const made = el("div", { class: `report ${tone}` }, el("span", {}, text), close);
  list.append(made);
  while (list.children.length > MOST) list.firstElementChild?.remove();
  if (tone !== "error") setTimeout(() => made.remove(), SHOWN);
}

/**
 * The bar about the connection; null when there is nothing to be said about it.
 *
 * @param {string | null} text
 */
export function showConnection(text) {
  const bar = /** @type {HTMLElement} */ (byId("connection"));
  bar.hidden = text === null;
  bar.textContent = text ?? "";
}
