// The agent of README.md, made with the TypeScript SDK.
//
//   node ts_agent.mjs <folder of @agentclientprotocol/sdk> 1|2 [serve]
//
// Speaks exactly that version on stdio, and ends when stdin does. With `serve` it is a server:
// its first line of output is its port.

import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setImmediate as settled } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { Boom, Session, Turn } from "./ts_agent_turns.mjs";
import { serve } from "./ts_serve.mjs";
import * as voices from "./ts_agent_voice.mjs";

const [sdk, version, served] = process.argv.slice(2);
const voice = voices[`v${version}`];
const acp = await import(pathToFileURL(join(sdk, "dist", `v${version}`, "stable", "acp.js")).href);
const { RequestError } = acp;

const INFO = { name: `ts-agent-v${version}`, version: "2.4.0" };
const sessions = new Map();
let created = 0;

function known({ sessionId }) {
  const session = sessions.get(sessionId);
  if (session === undefined) throw RequestError.sessionNotFound(sessionId);
  return session;
}

function active(params) {
  const session = known(params);
  if (!session.open) throw RequestError.sessionNotFound(params.sessionId);
  return session;
}

async function send(client, { sessionId }, updates) {
  for (const update of updates) await client.notify("session/update", { sessionId, update });
}

function authenticate({ params }) {
  if (params.methodId !== "token") throw RequestError.invalidParams(params, "no such method");
  return {};
}

async function newSession({ params }) {
  const session = new Session(`s${++created}`, params.cwd);
  sessions.set(session.sessionId, session);
  return { sessionId: session.sessionId, ...voice.settings(session.mode) };
}

async function setMode(client, session, mode) {
  if (!voices.isMode(mode)) throw RequestError.invalidParams({ mode }, "no such mode");
  session.mode = mode;
  await send(client, session, voice.modeChanged(mode));
}

async function listSessions({ params }) {
  const listed = [...sessions.values()].filter(({ cwd }) => cwd === (params.cwd ?? cwd));
  return { sessions: listed.map(({ info }) => info) };
}

/** Makes a session active again, with or without a replay of it. */
async function reopen({ params, client }, replay) {
  const session = known(params);
  session.open = true;
  if (replay) await send(client, session, session.replay(voice));
  await send(client, session, voice.state(session.state));
  return voice.settings(session.mode);
}

function cancel(session) {
  for (const { refuse } of session.held.splice(0)) refuse(RequestError.requestCancelled());
  session.turn?.cancel();
}

async function close({ params }) {
  const session = known(params);
  cancel(session);
  session.open = false;
  await session.turn?.done;
  // the rest of the turn, its result included, is sent first
  await settled();
  return {};
}

async function deleteSession(context) {
  await close(context);
  sessions.delete(context.params.sessionId);
  return {};
}

function begin(session, client, blocks) {
  const turn = new Turn(session, client, voice, blocks);
  turn.done = new Promise((resolve) => {
    turn.finish = () => {
      session.turn = null;
      resolve();
      session.held.shift()?.go();
    };
  });
  session.turn = turn;
  return turn;
}

async function promptV1({ params, client }) {
  const session = active(params);
  if (session.turn) throw RequestError.invalidRequest(undefined, "a turn is running");
  const turn = begin(session, client, params.prompt);
  try {
    return { stopReason: await turn.run() };
  } catch (error) {
    throw error instanceof Boom ? new RequestError(error.code, error.message) : error;
  } finally {
    turn.finish();
  }
}

/** Waits for the running turn; refused by a cancel of the session, or of the prompt itself. */
function itsTurn(session, signal) {
  return new Promise((go, refuse) => {
    const held = { go, refuse };
    session.held.push(held);
    signal.addEventListener("abort", () => {
      session.held = session.held.filter((other) => other !== held);
      refuse(RequestError.requestCancelled());
    });
  });
}

async function promptV2({ params, client, signal }) {
  const session = active(params);
  while (session.turn) await itsTurn(session, signal);
  const turn = begin(session, client, params.prompt);
  // in a later turn of the event loop, so that the result goes out first
  setImmediate(() => work(turn).catch(stop));
  return { messageId: turn.prompt.messageId };
}

async function work(turn) {
  await turn.send(voice.echo(turn.prompt));
  try {
    await turn.enter("idle", { stopReason: await turn.run() });
  } catch (error) {
    if (!(error instanceof Boom)) throw error;
    const { code, message } = error;
    await turn.enter("idle", { stopReason: "error", error: { code, message } });
  } finally {
    turn.finish();
  }
}

function stop(error) {
  if (served || connection.signal.aborted) return;
  console.error(error);
  process.exit(1);
}

// In this order: the SDK reaches handlers further down later, and a cancel must come neither
// before the prompt it is meant for nor long after.
const app = acp
  .agent(INFO)
  .onRequest("session/prompt", version === "1" ? promptV1 : promptV2)
  .onNotification("session/cancel", ({ params }) => {
    const session = sessions.get(params.sessionId);
    if (session !== undefined) cancel(session);
  })
  .onRequest("initialize", () => voice.initialized(INFO))
  .onRequest("session/new", newSession)
  .onRequest("session/list", listSessions)
  .onRequest("session/close", close)
  .onRequest("session/delete", deleteSession);

if (version === "1") {
  app
    .onRequest("authenticate", authenticate)
    .onRequest("session/load", (context) => reopen(context, true))
    .onRequest("session/resume", (context) => reopen(context, false))
    .onRequest("session/set_mode", async ({ params, client }) => {
      await setMode(client, active(params), params.modeId);
      return {};
    });
} else {
  app
    .onRequest("auth/login", authenticate)
    .onRequest("session/resume", (context) => reopen(context, context.params.replayFrom != null))
    .onRequest("session/set_config_option", async ({ params, client }) => {
      const session = active(params);
      if (params.configId !== "mode") throw RequestError.invalidParams(params, "no such option");
      await setMode(client, session, params.value);
      return voice.settings(session.mode);
    });
}

let connection;
if (served) {
  await serve(sdk, app);
} else {
  connection = app.connect(
    acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)),
  );
  await connection.closed;
  process.exit(0);
}
