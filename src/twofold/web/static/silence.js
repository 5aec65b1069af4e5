/**
 * Whether a key may answer a question: only after a silence, so that no key answers that was meant
 * for something else. Pointers have to wait a moment, too: the question came under them.
 */

/** Milliseconds without any key, while the question is shown. */
export const SILENCE = 1_000;
/** Milliseconds that a question is shown before a click counts. */
export const READ = 500;

export class Silence {
  /** @param {() => void} changed called when keys count from now on, or do so no more */
  constructor(changed) {
    this.changed = changed;
    this.isQuiet = false;
    /** Whether the key that is being handled came after a silence. */
    this.wasQuiet = false;
    /** @type {number | undefined} */
    this.timer = undefined;
    // before anything else takes the key, and for every key on the page
    addEventListener("keydown", () => this.begin(this.isQuiet), { capture: true });
  }

  /**
   * A key was pressed, or there is something new to be read: the silence begins anew.
   *
   * @param {boolean} [wasQuiet]
   */
  begin(wasQuiet = false) {
    clearTimeout(this.timer);
    this.wasQuiet = wasQuiet;
    this.set(false);
    this.timer = setTimeout(() => this.set(true), SILENCE);
  }

  /** @param {boolean} quiet */
  set(quiet) {
    if (quiet === this.isQuiet) return;
    this.isQuiet = quiet;
    this.changed();
  }
}
