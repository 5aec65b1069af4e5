/**
 * What a screen reader is given of the conversation: blocks that are settled, and no others.
 *
 * @import {Held, Mirror} from "./mirror.js"
 */

import { byId, el } from "./elements.js";

const KEPT = 6;
const LONGEST = 1_200;

export class Announcer {
  constructor() {
    this.log = /** @type {HTMLElement} */ (byId("announcements"));
    /** @type {Set<string>} those that grow, and were not given yet */
    this.open = new Set();
  }

  /** Another session is shown, from here on. */
  reset() {
    this.open.clear();
    this.log.replaceChildren();
  }

  /**
   * @param {Mirror} mirror
   * @param {import("./mirror.js").Changes} changes
   */
  changed(mirror, changes) {
    for (const { key, at } of [...changes.put, ...changes.grow]) {
      if (at >= mirror.count - KEPT) this.open.add(key);
    }
    for (const key of [...this.open]) {
      const held = mirror.held.get(key);
      if (!held) this.open.delete(key);
      else if (isSettled(held, mirror)) {
        this.open.delete(key);
        this.give(wordsOf(held));
      }
    }
  }

  /** @param {string} words */
  give(words) {
    if (!words) return;
    this.log.append(el("p", {}, words.length > LONGEST ? `${words.slice(0, LONGEST)} …` : words));
    while (this.log.children.length > KEPT) this.log.firstElementChild?.remove();
  }
}

/**
 * @param {Held} held
 * @param {Mirror} mirror
 */
function isSettled(held, mirror) {
  const { block, at } = held;
  if (block.type === "ToolCallBlock") return !!block.finished;
  const ended = mirror.facts.session?.state === "idle" || mirror.facts.session?.state === "failed";
  return block.type !== "MessageBlock" || ended || at < mirror.count - 1;
}

/** @param {Held} held */
function wordsOf({ block }) {
  switch (block.type) {
    case "MessageBlock": {
      if (block.role === "thought" || block.role === "user") return "";
      return piecesWords([...(block.items ?? []), ...(block.tail ?? [])]);
    }
    case "ToolCallBlock":
      return `${block.title}: ${block.word || block.status}`;
    default:
      return [block.severity, block.title ?? block.text, block.description]
        .filter(Boolean)
        .join(": ");
  }
}

/**
 * The words of a message, as many as are given.
 *
 * @param {any[]} pieces
 */
function piecesWords(pieces) {
  let words = "";
  for (const piece of pieces) {
    if (words.length > LONGEST) break;
    words += ` ${pieceWords(piece)}`.trimEnd();
  }
  return words.trimStart();
}

/**
 * @param {any} piece
 * @returns {string}
 */
function pieceWords(piece) {
  if (piece.type === "CodeLine" || piece.type === "CodeStart") return "";
  if (typeof piece.text === "string") return piece.text;
  const spans = Array.isArray(piece.spans) ? piece.spans : [];
  return spans.map((/** @type {any} */ span) => span.text ?? "").join("");
}
