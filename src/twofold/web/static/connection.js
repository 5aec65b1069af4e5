/**
 * The connection to the server, which is made again whenever it is lost.
 *
 * A request is answered by `done` or `error`. One that is not answered for a while means that the
 * connection is dead, as after sleep: it is closed and made again.
 */

const FIRST_DELAY = 200;
const LONGEST_DELAY = 5_000;
const PATIENCE = 15_000;

/** The connection was lost before the answer came: it is not certain what became of the request. */
export class Lost extends Error {}

/**
 * @typedef {{
 *   message: (message: any) => void,
 *   open: () => void,
 *   lost: (delay: number) => void,
 * }} Listener
 */

export class Connection {
  /**
   * @param {string} url
   * @param {Listener} listener
   */
  constructor(url, listener) {
    this.url = url;
    this.listener = listener;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.delay = FIRST_DELAY;
    this.lastId = 0;
    /** @type {Map<number, {resolve: (done: any) => void, reject: (error: Error) => void,
     *   timer: number}>} */
    this.pending = new Map();
    /** @type {number | undefined} */
    this.timer = undefined;
    addEventListener("online", () => this.now());
    addEventListener("offline", () => this.end());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.now();
    });
    this.connect();
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  connect() {
    clearTimeout(this.timer);
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.addEventListener("open", () => this.listener.open());
    socket.addEventListener("message", (event) => {
      if (socket === this.socket) this.receive(event.data);
    });
    socket.addEventListener("close", () => {
      if (socket === this.socket) this.end();
    });
  }

  /** Tries again at once, if it is waiting to. */
  now() {
    if (this.socket === null) this.connect();
  }

  end() {
    const { socket } = this;
    if (socket === null) return;
    this.socket = null;
    socket.close();
    for (const { reject, timer } of this.pending.values()) {
      clearTimeout(timer);
      reject(new Lost("The connection was lost before the answer came."));
    }
    this.pending.clear();
    // so that many pages do not come back in the same moment
    const delay = this.delay * (0.75 + Math.random() / 2);
    this.delay = Math.min(LONGEST_DELAY, this.delay * 2);
    this.timer = setTimeout(() => this.connect(), delay);
    this.listener.lost(delay);
  }

  /** @param {unknown} data */
  receive(data) {
    if (typeof data !== "string") return;
    const message = JSON.parse(data);
    this.delay = FIRST_DELAY;
    const waiting = this.pending.get(message.id);
    if (waiting && ["done", "error", "opened"].includes(message.type)) {
      this.pending.delete(message.id);
      clearTimeout(waiting.timer);
      if (message.type === "error") waiting.reject(new Error(message.message));
      else waiting.resolve(message);
      // what was opened has to be there before the frames that follow it
      if (message.type !== "opened") return;
    }
    this.listener.message(message);
  }

  /**
   * Sends a request.
   *
   * @param {string} type
   * @param {object} [fields]
   * @returns {Promise<any>} the answer; rejected with `Lost` if it is not certain that it arrived
   */
  request(type, fields = {}) {
    const { socket } = this;
    if (!socket || socket.readyState !== WebSocket.OPEN) {
      return Promise.reject(new Error("There is no connection to the server."));
    }
    this.lastId += 1;
    const id = this.lastId;
    const text = JSON.stringify({ type, id, ...fields });
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        if (socket === this.socket) this.end();
      }, PATIENCE);
      this.pending.set(id, { resolve, reject, timer });
      socket.send(text);
    });
  }
}
