/**
 * Shows how long a tool call takes, second by second, and how long it took.
 *
 * @import {Block} from "../contract.js"
 */

import { duration, ended, secondsSince } from "../clock.js";
import { el } from "../elements.js";

/** @type {Map<HTMLElement, Block>} those of calls that work; one that is off the page is dropped */
const running = new Map();

/**
 * @param {Block} block a tool call
 * @returns {HTMLElement | null} null if its time is not known
 */
export function took(block) {
  if (typeof block.seconds !== "number") return null;
  const made = el("span", { class: "took" });
  if (typeof block.since === "number") running.set(made, block);
  draw(made, block);
  return made;
}

/**
 * @param {HTMLElement} element
 * @param {Block} block
 */
function draw(element, block) {
  const { seconds, since } = block;
  const words = since ? duration(seconds + secondsSince(since)) : ended(seconds);
  if (element.textContent !== words) element.textContent = words;
}

setInterval(() => {
  for (const [element, block] of running) {
    if (element.isConnected) draw(element, block);
    else running.delete(element);
  }
}, 1000);
