/**
 * Draws tool calls as cards: what is done, where, how far it is, and what came of it.
 *
 * @import {Context, Drawn} from "./context.js"
 * @import {Block, Location, Piece} from "../contract.js"
 */

import { el } from "../elements.js";
import { Body } from "./body.js";
import { locationList } from "./locations.js";
import { took } from "./took.js";

const STATUSES = new Set([
  ...["pending", "in_progress", "completed", "failed", "waiting", "paused"],
  ...["cancelling", "cancelled", "rejected", "left_open"],
]);

/**
 * @param {Block} block
 * @param {Context} context
 * @returns {Drawn}
 */
export function toolCall(block, context) {
  const status = STATUSES.has(block.status) ? block.status : "in_progress";
  const items = el("div", { class: "items" });
  const body = new Body(items, block, context);
  const element = el(
    "section",
    { class: `call ${status}` },
    headOf(block),
    locationList(unnamed(block), context),
    items,
    ...(block.permissions ?? []).map(permission),
    ...(block.decisions ?? []).map((/** @type {string} */ words) =>
      el("p", { class: "remark" }, words),
    ),
  );
  return {
    element,
    grow: () => body.grow(),
    near: (from, to) => body.near(from, to),
    topOf: (text) => body.topOf(text),
  };
}

/** @param {Block} block */
function headOf(block) {
  const kind = block.kind && block.kind !== "other" ? block.kind.replaceAll("_", " ") : "";
  const words = [kind, block.word || block.status].filter(Boolean).join(", ");
  const time = took(block);
  return el(
    "h3",
    {},
    el("span", { class: "icon", "aria-hidden": "true" }, block.icon || "•"),
    el("span", { class: "title" }, block.title || "Tool call"),
    el("span", { class: "status" }, ...(time ? [words, ", ", time] : [words])),
  );
}

/**
 * The locations that no diff of the call names itself.
 *
 * @param {Block} block
 * @returns {Location[]}
 */
function unnamed(block) {
  const items = /** @type {Piece[]} */ (block.items ?? []);
  const named = new Set(
    items
      .flatMap((item) => (item.type === "DiffItem" ? (item.lines ?? []) : []))
      .filter((line) => line.kind === "file")
      .map((line) => line.text.replace(/ \(new file\)$/, "")),
  );
  const given = /** @type {Location[]} */ (block.locations ?? []);
  return given.filter((each) => !named.has(each.name || each.path));
}

/** @param {Block} block */
function permission(block) {
  // what would happen is shown with the question, below the conversation
  return el("p", { class: "asked" }, `? ${block.title}`);
}
