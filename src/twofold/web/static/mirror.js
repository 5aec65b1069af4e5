/**
 * What the page holds of a session: the blocks of a window of its places, and its facts.
 *
 * Frames are applied in order; what is outside of the window is dropped. No elements here.
 *
 * @import {Block, Facts, Frame, Piece} from "./contract.js"
 *
 * @typedef {{at: number, key: string, version: number, block: Block}} Held
 * @typedef {{
 *   put: Held[], grow: Held[], gone: number[],
 *   facts: string[]
 * }} Changes
 */

export class Mirror {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.epoch = "";
    this.seq = -1;
    this.count = 0;
    /** @type {Facts} */
    this.facts = {};
    /** @type {Map<string, Held>} */
    this.held = new Map();
    /** @type {Map<number, Held>} */
    this.places = new Map();
    /** The window: from its first place on, to before its last, or to the end (null). */
    this.from = 0;
    /** @type {number | null} */
    this.to = null;
    /** The part of the window that has arrived: a place in it without a block holds nothing. */
    this.arrived = { from: 0, to: 0 };
  }

  /** Forgets all blocks: the server is not the one that sent them. */
  reset() {
    this.held.clear();
    this.places.clear();
    this.seq = -1;
    this.count = 0;
    this.facts = {};
    this.arrived = { from: 0, to: 0 };
  }

  /**
   * @param {number} from
   * @param {number | null} to
   */
  setWindow(from, to) {
    this.from = from;
    this.to = to;
    const end = to ?? Infinity;
    for (const held of [...this.places.values()]) {
      if (held.at < from || held.at >= end) this.drop(held);
    }
    this.arrived.from = Math.max(this.arrived.from, from);
    this.arrived.to = Math.min(this.arrived.to, end);
  }

  /** Makes what has arrived the window: the rest is asked for again. */
  keepArrived() {
    const { from, to } = this.arrived;
    this.setWindow(from, to === Infinity ? null : Math.max(from, to));
  }

  /** All of the window has arrived. */
  settle() {
    this.arrived = { from: this.from, to: this.to ?? Infinity };
  }

  /**
   * @param {number} at
   * @returns {Held | null | undefined} null if the place holds nothing, undefined if it is not here
   */
  at(at) {
    const held = this.places.get(at);
    if (held) return held;
    return at >= this.arrived.from && at < this.arrived.to ? null : undefined;
  }

  /**
   * @param {Frame} frame
   * @returns {Changes}
   */
  apply(frame) {
    /** @type {Changes} */
    const changes = { put: [], grow: [], gone: [], facts: [] };
    this.seq = frame.seq;
    this.count = Math.max(this.count, frame.count);
    for (const [at, key, version, block] of frame.put ?? []) {
      if (at === null || at < this.from || at >= (this.to ?? Infinity)) continue;
      const held = { at, key, version, block };
      this.held.set(key, held);
      this.places.set(at, held);
      changes.put.push(held);
    }
    for (const [key, settled, tail] of frame.grow ?? []) {
      const held = this.held.get(key);
      if (!held) continue;
      grow(held.block, settled, tail);
      changes.grow.push(held);
    }
    for (const key of frame.gone ?? []) {
      const held = this.held.get(key);
      if (!held) continue;
      this.drop(held);
      changes.gone.push(held.at);
    }
    Object.assign(this.facts, frame.facts);
    changes.facts = Object.keys(frame.facts ?? {});
    return changes;
  }

  /** @param {Held} held */
  drop(held) {
    this.held.delete(held.key);
    this.places.delete(held.at);
  }
}

/**
 * @param {Block} block
 * @param {Piece[]} settled
 * @param {Piece[]} tail
 */
function grow(block, settled, tail) {
  block.items ??= [];
  for (const piece of settled) block.items.push(piece);
  block.tail = tail;
}
