/**
 * The bytes of pictures and sounds in a session, as `blob:` addresses; those used last are kept.
 *
 * @import {Media as MediaFacts} from "./contract.js"
 */

const KEPT = 40;
/** How often a request is made again while the network is lost, and the first pause before it. */
const ATTEMPTS = 6;
const PAUSE = 250;

export class Media {
  constructor() {
    /** @type {Map<string, Promise<string>>} */
    this.urls = new Map();
  }

  /**
   * @param {string} session
   * @param {string} key
   * @param {MediaFacts} media
   * @returns {Promise<string>}
   */
  url(session, key, media) {
    const path = `/session/${encodeURIComponent(session)}/media/${encodeURIComponent(key)}/${media.n}`;
    const found = this.urls.get(path) ?? load(path, media.mime ?? "");
    this.urls.delete(path);
    this.urls.set(path, found);
    found.catch(() => this.urls.delete(path));
    if (this.urls.size > KEPT) this.forget([...this.urls.keys()][0]);
    return found;
  }

  clear() {
    for (const path of [...this.urls.keys()]) this.forget(path);
  }

  /** @param {string} path */
  forget(path) {
    this.urls.get(path)?.then(URL.revokeObjectURL, () => {});
    this.urls.delete(path);
  }
}

/**
 * @param {string} path
 * @param {string} mime
 */
async function load(path, mime) {
  const answer = await fetched(path);
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  // the type is one that the page chose, whatever the answer claims
  return URL.createObjectURL(new Blob([await answer.arrayBuffer()], { type: mime }));
}

/**
 * @param {string} path
 * @returns {Promise<Response>}
 */
async function fetched(path) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await fetch(path);
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE * 2 ** attempt));
    }
  }
}
