/** Copies text, and reports on the button whether it worked. */

import { el } from "./elements.js";

/** How long a button shows what it did, in milliseconds. */
const SHOWN = 1600;

/**
 * A button that copies what `read` returns when it is pressed. The stylesheet writes on it, so
 * that it is no part of the text around it.
 *
 * @param {string} label
 * @param {() => string} read
 */
export function copyButton(label, read) {
  const made = el("button", { type: "button", class: "copy", "aria-label": label, title: label });
  made.addEventListener("click", async () => {
    made.dataset.result = (await copy(read())) ? "copied" : "failed";
    setTimeout(() => delete made.dataset.result, SHOWN);
  });
  return made;
}

/**
 * @param {string} text
 * @returns {Promise<boolean>} whether it was copied
 */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
