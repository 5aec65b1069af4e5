// What a page is measured with, in the page: its frames, its long tasks, its first paint.
window.bench = {
  /** @type {[start: number, duration: number][]} */
  tasks: [],
  /** When the session arrived, and when the first of its blocks was painted. */
  data: null,
  painted: null,

  /** Frames until a condition holds, or until a time is over: how long each was shown, in ms. */
  async frames(until, limit, each = () => {}) {
    const began = performance.now();
    const shown = [];
    let last = await new Promise(requestAnimationFrame);
    for (;;) {
      const now = await new Promise(requestAnimationFrame);
      shown.push(now - last);
      last = now;
      each();
      if (until() || now - began > limit) break;
    }
    const took = performance.now() - began;
    // long tasks are reported a little later
    await new Promise((resolve) => setTimeout(resolve, 300));
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    const tasks = bench.tasks.filter(([start]) => start > paint.startTime);
    return { shown, took, tasks: tasks.map(([, duration]) => duration) };
  },
};

new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) bench.tasks.push([entry.startTime, entry.duration]);
}).observe({ type: "longtask", buffered: true });

const Native = WebSocket;
window.WebSocket = class extends Native {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => {
      if (bench.data === null && data.includes('"opened"')) bench.data = performance.now();
    });
  }
};

function look() {
  if (document.querySelector(".place:not(.loading)") === null) {
    requestAnimationFrame(look);
    return;
  }
  // the first message after a frame comes when that frame was painted
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => (bench.painted = performance.now());
  port2.postMessage(null);
}
requestAnimationFrame(look);
