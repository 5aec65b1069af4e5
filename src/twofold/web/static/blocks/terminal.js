/**
 * Draws a terminal of the agent: its command, the rows of its screen in colours, how it ended.
 *
 * @import {Piece} from "../contract.js"
 */

import { copyButton } from "../clipboard.js";
import { el } from "../elements.js";
import { styledText } from "./styled.js";

/**
 * @param {Piece} item
 * @returns {HTMLElement}
 */
export function terminal(item) {
  const screen = el("pre", { class: "terminal", tabindex: "0" });
  if (item.command)
    screen.append(el("span", { class: "command" }, commandText(item.command)), "\n");
  if (item.hidden) {
    const words = `${item.hidden.toLocaleString("en")} earlier lines are not shown`;
    screen.append(el("span", { class: "dim" }, words), "\n");
  }
  const rows = item.rows ?? [];
  for (const [number, row] of rows.entries()) {
    if (number) screen.append("\n");
    screen.append(...row.map(([text, style]) => styledText(text, style)));
  }
  const facts = [];
  if (item.cwd) facts.push(`in ${item.cwd}`);
  if (item.received === false) facts.push("output not received");
  const copy = copyButton("Copy this output", () => rows.map(rowText).join("\n"));
  const made = el("div", { class: "terminal-box" }, el("div", { class: "tools" }, copy), screen);
  if (facts.length) made.append(el("p", { class: "facts" }, facts.join(", ")));
  if (item.exit && !item.succeeded) made.append(el("p", { class: "remark error" }, item.exit));
  // what was printed last is what one wants to see of a screen that is cut off
  requestAnimationFrame(() => (screen.scrollTop = screen.scrollHeight));
  return made;
}

/** @param {string} command */
export function commandText(command) {
  const [first, ...others] = command.split("\n");
  return [`$ ${first}`, ...others.map((line) => `> ${line}`)].join("\n");
}

/** @param {[string, string][]} row */
function rowText(row) {
  return row.map(([text]) => text).join("");
}
