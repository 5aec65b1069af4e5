/**
 * Draws messages and thoughts.
 *
 * @import {Context, Drawn} from "./context.js"
 * @import {Block, Piece} from "../contract.js"
 */

import { copyButton } from "../clipboard.js";
import { el } from "../elements.js";
import { asText } from "./as_text.js";
import { Body } from "./body.js";
import { details } from "./folding.js";

/** How many characters of a thought are shown while it is closed. */
const FIRST_WORDS = 100;

/**
 * @param {Block} block
 * @param {Context} context
 * @returns {Drawn}
 */
export function message(block, context) {
  const inside = el("div", { class: "body" });
  const { element, grown } = frameOf(block, inside, context);
  const body = new Body(inside, block, context);
  grown();
  return {
    element,
    grow() {
      body.grow();
      grown();
    },
    near: (from, to) => body.near(from, to),
    topOf: (text) => body.topOf(text),
  };
}

/** @param {Block} block */
function everyPiece(block) {
  return /** @type {Piece[]} */ ([...(block.items ?? []), ...(block.tail ?? [])]);
}

/**
 * What is around the text, and a function to be called when it has grown.
 *
 * @param {Block} block
 * @param {HTMLElement} body
 * @param {Context} context
 */
function frameOf(block, body, context) {
  const copy = copyButton("Copy this message", () => asText(everyPiece(block)));
  const tools = el("div", { class: "tools" }, copy);
  if (block.role === "thought") return thought(block, body, context);
  if (block.role === "user") {
    const label = el("h2", { class: "hidden-label" }, "You");
    return { element: el("section", { class: "message user" }, label, body, tools), grown() {} };
  }
  if (block.role === "session") {
    const label = el("p", { class: "facts" }, `Message from session ${block.sender || "unknown"}`);
    return { element: el("section", { class: "message other" }, label, body, tools), grown() {} };
  }
  const label = el("h2", { class: "hidden-label" }, "Agent");
  return { element: el("section", { class: "message agent" }, label, body, tools), grown() {} };
}

/**
 * @param {Block} block
 * @param {HTMLElement} body
 * @param {Context} context
 */
function thought(block, body, context) {
  const words = el("span", { class: "first-words" });
  const summary = el("span", {}, el("b", {}, "Thought"), " ", words);
  const element = details(context, "thought", summary, { class: "message thought" }, body);
  const grown = () => {
    if ((words.textContent ?? "").length > FIRST_WORDS) return;
    const first = asText(everyPiece(block), 4 * FIRST_WORDS).slice(0, 4 * FIRST_WORDS);
    const text = first.replace(/\s+/g, " ").trim();
    words.textContent = text.length > FIRST_WORDS ? `${text.slice(0, FIRST_WORDS)}…` : text;
  };
  return { element, grown };
}
