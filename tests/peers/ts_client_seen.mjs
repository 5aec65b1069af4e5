// What came over the wire, in its order, and what of it the SDK handed on.
//
// The SDK may hand over an answer before the updates that came ahead of it. So places are
// counted on the wire, and what lies between them is read from what the SDK accepted.

import { EventEmitter, once } from "node:events";
import { setImmediate as settled } from "node:timers/promises";

const COUNTED = new Set(["session/update", "session/request_permission"]);

export class Seen {
  /** What the SDK handed on: {update} or {request}, in order. */
  entries = [];
  #arrived = 0;
  #pending = new Map();
  #answeredAt = new Map();
  #changes = new EventEmitter();

  /** The stream, watched in both directions. */
  watch({ readable, writable }) {
    const writer = writable.getWriter();
    const incoming = new TransformStream({
      transform: (message, controller) => {
        this.#received(message);
        controller.enqueue(message);
      },
    });
    const outgoing = new WritableStream({
      write: (message) => {
        if ("method" in message && "id" in message) this.#pending.set(message.id, message.method);
        return writer.write(message);
      },
    });
    return { readable: readable.pipeThrough(incoming), writable: outgoing };
  }

  #received(message) {
    if (COUNTED.has(message.method)) this.#arrived += 1;
    if ("method" in message || !this.#pending.has(message.id)) return;
    this.#answeredAt.set(this.#pending.get(message.id), this.#arrived - this.#lost);
    this.#pending.delete(message.id);
  }

  add(entry) {
    this.entries.push(entry);
    this.#changes.emit("change");
  }

  // forgiven entries: lost in an earlier step, which reported it
  #lost = 0;

  /** How many entries the SDK refused since this was asked last. */
  async refused() {
    await settled();
    const lost = this.#arrived - this.entries.length;
    const fresh = lost - this.#lost;
    this.#lost = lost;
    return fresh;
  }

  /** How many entries had come when the last request of this method was answered. */
  async answeredAt(method) {
    await settled();
    return this.#answeredAt.get(method);
  }

  /** Waits until `test` gives something, and gives that. */
  async until(test, signal) {
    let found = test();
    while (!found) {
      await once(this.#changes, "change", { signal });
      found = test();
    }
    return found;
  }

  updates(from, to) {
    return this.entries.slice(from, to).flatMap((entry) => entry.update ?? []);
  }
}
