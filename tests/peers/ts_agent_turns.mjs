// The sessions of the agent of README.md, and what it does in a turn.
//
// A session records its conversation as facts, not as updates: what is replayed is sent anew,
// by the voice of the version. Nothing here depends on that version.

import { setImmediate as settled, setTimeout as sleep } from "node:timers/promises";

const TICK_MS = 20;
const SLOW_LIMIT_MS = 60_000;
const OPTIONS = [
  { optionId: "a1", name: "Allow once", kind: "allow_once" },
  { optionId: "a2", name: "Always allow", kind: "allow_always" },
  { optionId: "r1", name: "Reject once", kind: "reject_once" },
  { optionId: "r2", name: "Always reject", kind: "reject_always" },
];

/** The failure that the prompt `error` asks for. */
export class Boom extends Error {
  code = -32603;
}

export class Session {
  mode = "ask";
  open = true;
  prompts = 0;
  items = [];
  calls = new Map();
  terminals = new Map();
  turn = null;
  held = [];

  constructor(sessionId, cwd) {
    this.sessionId = sessionId;
    this.cwd = cwd;
  }

  get info() {
    return { sessionId: this.sessionId, cwd: this.cwd, title: `Session ${this.sessionId}` };
  }

  get state() {
    return this.turn?.state ?? "idle";
  }

  /** The recorded conversation, as the updates of a voice. */
  replay(voice) {
    const updatesOf = {
      user: (item) => voice.user(item),
      agent: (item) => voice.message(item),
      call: (item) => [
        ...(this.calls.get(item.id).content ?? [])
          .filter((content) => content.type === "terminal")
          .flatMap(({ terminalId }) => voice.terminalWhole(this.terminals.get(terminalId))),
        ...voice.newCall(this.calls.get(item.id)),
      ],
    };
    return this.items.flatMap((item) => updatesOf[item.type](item));
  }
}

/** One prompt being worked on: sends messages to the client, and records what is to be replayed. */
export class Turn {
  #controller = new AbortController();
  state = "running";
  message = null;

  constructor(session, client, voice, blocks) {
    this.session = session;
    this.client = client;
    this.voice = voice;
    this.number = ++session.prompts;
    this.prompt = { type: "user", messageId: `u${this.number}`, blocks };
    session.items.push(this.prompt);
  }

  get signal() {
    return this.#controller.signal;
  }

  get cancelled() {
    return this.signal.aborted;
  }

  cancel() {
    this.#controller.abort();
  }

  /** Works on the prompt; gives the stop reason, or throws `Boom`. */
  async run() {
    const first = this.prompt.blocks.find((block) => block.type === "text")?.text ?? "";
    const words = first.trim().replace(/^\//, "");
    await this.enter("running");
    await (Object.hasOwn(SCRIPTS, words) ? SCRIPTS[words](this) : this.say(`echo: ${words}`));
    return this.cancelled ? "cancelled" : "end_turn";
  }

  async send(updates) {
    for (const update of updates) {
      await this.client.notify("session/update", { sessionId: this.session.sessionId, update });
    }
  }

  async enter(state, more) {
    this.state = state;
    await this.send(this.voice.state(state, more));
  }

  async think(chunk) {
    await this.send(this.voice.thoughtChunk(`h${this.number}`, chunk));
  }

  async say(chunk) {
    if (this.message === null) {
      this.message = { type: "agent", messageId: `m${this.number}`, text: "" };
      this.session.items.push(this.message);
    }
    this.message.text += chunk;
    await this.send(this.voice.messageChunk(this.message.messageId, chunk));
  }

  async plan(entries) {
    await this.send(this.voice.plan(entries));
  }

  async call(patch) {
    const { calls, items } = this.session;
    const known = calls.get(patch.toolCallId);
    calls.set(patch.toolCallId, { ...known, ...patch });
    if (known === undefined) items.push({ type: "call", id: patch.toolCallId });
    await this.send(known === undefined ? this.voice.newCall(patch) : this.voice.callPatch(patch));
  }

  async openTerminal(terminalId, command) {
    const terminal = { terminalId, command, cwd: this.session.cwd, output: "" };
    this.session.terminals.set(terminalId, terminal);
    await this.send(this.voice.terminalOpened(terminal));
    return terminal;
  }

  async output(terminal, chunk) {
    terminal.output += chunk;
    await this.send(this.voice.terminalOutput(terminal.terminalId, chunk));
  }

  async exit(terminal, exitCode) {
    terminal.exitStatus = { exitCode };
    await this.send(this.voice.terminalExited(terminal));
  }

  /** Asks for permission; gives the id of the option that was chosen, null for cancelled. */
  async ask(call) {
    await this.enter("requires_action");
    const chosen = await this.#answer(call);
    if (!this.cancelled) await this.enter("running");
    return chosen;
  }

  async #answer(call) {
    const params = {
      sessionId: this.session.sessionId,
      ...this.voice.permission(call, OPTIONS),
    };
    try {
      const { outcome } = await this.client.request(
        "session/request_permission",
        params,
        this.voice.withdraws ? { cancellationSignal: this.signal, stopWaitingOnCancel: true } : {},
      );
      // the SDK may hand over an answer before the cancel that came ahead of it
      await settled();
      return outcome.outcome === "selected" ? outcome.optionId : null;
    } catch (error) {
      if (this.cancelled) return null;
      throw error;
    }
  }
}

async function stream(turn) {
  for (const chunk of ["let me ", "think"]) await turn.think(chunk);
  for (const chunk of ["one ", "two ", "three ", "four ", "five"]) await turn.say(chunk);
}

async function tools(turn) {
  const { voice, number } = turn;
  const [edit, hello, path] = [`t${number}a`, `t${number}b`, "/tmp/demo.txt"];
  const plan = (first, second) =>
    turn.plan([
      { content: "edit the file", priority: "high", status: first },
      { content: "say hello", priority: "low", status: second },
    ]);
  const status = "in_progress";

  await plan("in_progress", "pending");
  const terminal = await turn.openTerminal(`term${number}`, "echo hello");
  await turn.call({
    ...{ toolCallId: edit, title: "Edit demo.txt", kind: "edit", status },
    locations: [{ path }],
  });
  await turn.call({
    ...{ toolCallId: hello, title: "Say hello", kind: "execute", status },
    ...voice.runningContent(terminal.terminalId),
  });
  await turn.output(terminal, "hel");
  await turn.call({
    ...{ toolCallId: edit, status: "completed" },
    content: [voice.diff({ path, oldText: "old\n", newText: "new\n" })],
  });
  await turn.output(terminal, "lo\n");
  await turn.exit(terminal, 0);
  await turn.call({
    ...{ toolCallId: hello, status: "completed" },
    ...voice.finishedContent("hello"),
  });
  await plan("completed", "completed");
  await turn.say("done");
}

async function permission(turn) {
  const toolCallId = `p${turn.number}`;
  const call = { toolCallId, title: "Run make", kind: "execute", status: "pending" };
  const finish = (status) => turn.call({ toolCallId, status });

  await turn.call(call);
  const chosen = await turn.ask(call);
  if (turn.cancelled) {
    await finish(turn.voice.cancelledStatus);
    return;
  }
  await finish(chosen?.startsWith("a") ? "completed" : "failed");
  await turn.say(`outcome: ${chosen ?? "cancelled"}`);
}

async function slow(turn) {
  const end = performance.now() + SLOW_LIMIT_MS;
  while (!turn.cancelled && performance.now() < end) {
    await turn.say("tick ");
    await sleep(TICK_MS, undefined, { signal: turn.signal }).catch(() => {});
  }
}

async function error() {
  throw new Boom("boom");
}

const SCRIPTS = { stream, tools, permission, slow, "slow-permission": permission, error };
