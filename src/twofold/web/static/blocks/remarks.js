/**
 * Draws what is said about the session: notices, compactions, subagents, ends of turns, and kinds
 * of blocks and updates that we do not know.
 *
 * @import {Context, Drawn} from "./context.js"
 * @import {Block, Piece} from "../contract.js"
 */

import { el } from "../elements.js";
import { itemOf } from "./items.js";
import { unknown } from "./media.js";
import { plan } from "./plan.js";

/** @param {string | null | undefined} text */
const paragraph = (text) => (text ? el("p", { class: "text" }, text) : null);

/**
 * @param {Block} block
 * @returns {Drawn}
 */
export function notice(block) {
  const tone = ["warning", "error"].includes(block.severity) ? block.severity : "info";
  const words = el("p", {}, el("b", {}, `${block.severity}: ${block.title}`));
  return {
    element: el("section", { class: `notice ${tone}` }, words, paragraph(block.description)),
  };
}

/**
 * @param {Block} block
 * @param {Context} context
 * @returns {Drawn}
 */
export function compaction(block, context) {
  const items = /** @type {Piece[]} */ (block.items ?? []);
  const drawn = items.map((item, number) => itemOf(item, context, `item ${number}`));
  const words = `Context compaction: ${String(block.status ?? "").replaceAll("_", " ")}`;
  const failed = block.error ? el("p", { class: "remark error" }, block.error) : null;
  return { element: el("section", { class: "notice info" }, el("p", {}, words), failed, ...drawn) };
}

/**
 * @param {Block} block
 * @returns {Drawn}
 */
export function subagent(block) {
  const state = block.state ? ` (${block.state})` : "";
  const words = el("p", {}, `Subagent: ${block.title}${state}`);
  return { element: el("section", { class: "notice info" }, words, paragraph(block.description)) };
}

/**
 * @param {Block} block
 * @returns {Drawn}
 */
export function remark(block) {
  return { element: el("p", { class: `remark turn ${block.tone ?? ""}`.trim() }, block.text) };
}

/**
 * @param {Block} block
 * @returns {Drawn}
 */
export function heading(block) {
  const facts = el("span", { class: "facts" }, (block.facts ?? []).join(" · "));
  return { element: el("h2", {}, block.text, " ", facts) };
}

/**
 * @param {Block} block
 * @returns {Drawn}
 */
export function planCard(block) {
  return { element: el("section", { class: "notice info" }, plan(block)) };
}

/**
 * Updates of a kind that we do not know.
 *
 * @param {Block} block
 * @param {Context} context
 * @returns {Drawn}
 */
export function unknownUpdate(block, context) {
  const times = block.count > 1 ? ` × ${block.count}` : "";
  const name = `[unknown update: ${block.name}]${times}`;
  if (block.raw === undefined) return { element: el("p", { class: "remark" }, name) };
  return { element: unknown(name, block.raw, context, "raw") };
}

/**
 * A block of a kind that this page does not know.
 *
 * @param {Block} block
 * @param {Context} context
 * @returns {Drawn}
 */
export function unknownBlock(block, context) {
  return { element: unknown(`[unknown block: ${block.type}]`, block, context, "raw") };
}
