// The client of README.md, made with the TypeScript SDK.
//
//   node ts_client.mjs <folder of @agentclientprotocol/sdk> 1|2 -- COMMAND ARGS… | URL
//
// Runs COMMAND as its agent, or reaches one at a URL (ws: or http:, with the token in ACP_TOKEN),
// takes it through the steps, prints a line of JSON for each, and exits with 0 whatever the steps
// found. A WebSocket of Node sets no headers: there the token is part of the URL.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";
import * as dialects from "./ts_client_dialects.mjs";
import { Seen } from "./ts_client_seen.mjs";
import { ON_REQUEST, STEPS } from "./ts_client_steps.mjs";

const STEP_MS = 1000 * Number(process.env.STEP_SECONDS ?? 10);
const END_MS = 2_000;
const SETUP = ["initialize", "new"];

const [sdk, version, dashes, command, ...args] = process.argv.slice(2);
if (dashes !== "--" || command === undefined) {
  console.error("usage: node ts_client.mjs SDK_FOLDER 1|2 -- COMMAND ARGS… | URL");
  process.exit(2);
}
const acp = await import(pathToFileURL(join(sdk, "dist", `v${version}`, "stable", "acp.js")).href);

const seen = new Seen();
const run = {
  dialect: dialects[`v${version}`],
  seen,
  cwd: process.env.CWD ?? process.cwd(),
  prompts: JSON.parse(process.env.PROMPTS ?? "{}"),
  session: null,
};
const usual = Object.keys(STEPS).filter((step) => !ON_REQUEST.includes(step));
const wanted = process.env.STEPS?.split(",") ?? usual;
const strange = wanted.filter((step) => !Object.hasOwn(STEPS, step));
if (strange.length > 0) {
  console.error(`STEPS names no step of the client: ${strange.join(", ")}`);
  process.exit(2);
}

const remote = /^(ws|http):/.test(command);

/** The stream to an agent at a URL. */
async function streamTo(url) {
  const name = url.startsWith("ws:") ? "ws-stream" : "http-stream";
  const transport = await import(pathToFileURL(join(sdk, "dist", "transports", `${name}.js`)).href);
  const token = process.env.ACP_TOKEN;
  if (name === "ws-stream") return transport.createWebSocketStream(`${url}?token=${token}`);
  return transport.createHttpStream(url, { headers: { Authorization: `Bearer ${token}` } });
}

/** The stream to an agent that was started. */
function streamOf(agent) {
  return acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
}

function connect(stream) {
  // updates are first: handlers further down are reached later, and an update must not be
  const app = acp
    .client({ name: "ts-client" })
    .onNotification("session/update", ({ params }) => {
      seen.add({ update: params.update });
      run.watch?.(seen.entries.at(-1));
    })
    .onRequest("session/request_permission", ({ params }) => {
      seen.add({ request: params });
      return run.answer?.(params) ?? { outcome: { outcome: "cancelled" } };
    });
  return app.connect(seen.watch(stream));
}

/** Does one step within its time; gives the line about it. */
async function take(step) {
  const timer = new AbortController();
  const limit = setTimeout(() => timer.abort(), STEP_MS);
  const late = once(timer.signal, "abort").then(() => {
    throw new Error("timeout");
  });
  const refusedBefore = await seen.refused();
  Object.assign(run, { step, from: seen.entries.length, signal: timer.signal });
  let line;
  try {
    line = { step, ok: true, ...(await Promise.race([STEPS[step](run), late])) };
  } catch (error) {
    line = { step, ok: false, error: reason(error) };
  }
  clearTimeout(limit);
  Object.assign(run, { answer: undefined, watch: undefined });
  if (timer.signal.aborted && run.session !== null) {
    await run.agent.notify("session/cancel", { sessionId: run.session }).catch(() => {});
  }
  const refused = refusedBefore + (await seen.refused());
  if (line.ok && refused > 0) {
    const updates = refused === 1 ? "update" : "updates";
    line = { ...line, ok: false, error: `the SDK refused ${refused} ${updates}` };
  }
  return line;
}

function reason(error) {
  const code = Number.isInteger(error?.code) ? ` (${error.code})` : "";
  return `${error?.message ?? error}${code}`;
}

async function takeAll() {
  for (const step of Object.keys(STEPS)) {
    const named = wanted.includes(step);
    if (!named && !SETUP.includes(step)) continue;
    const possible = step === "initialize" || (step === "new" ? run.offered : run.session);
    const line = !possible ? { step, ok: false, error: "no session" } : await take(step);
    if (named) console.log(JSON.stringify(line));
  }
}

/** Lets the agent end by itself, and ends it if it does not. */
async function end(agent) {
  const gone = agent.exitCode === null && agent.signalCode === null && once(agent, "exit");
  if (!gone) return;
  agent.stdin.end();
  const impatient = setTimeout(() => agent.kill("SIGKILL"), END_MS);
  await gone;
  clearTimeout(impatient);
}

async function takeAllWith(stream) {
  const connection = connect(stream);
  run.agent = connection.agent;
  await takeAll();
  connection.close();
}

if (remote) {
  await takeAllWith(await streamTo(command));
} else {
  const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  // a dead agent shows as a closed connection, in the step that meets it
  agent.stdin.on("error", () => {});
  const started = once(agent, "spawn").then(
    () => true,
    (error) => console.error(reason(error)),
  );
  await takeAllWith(streamOf(agent));
  if (await started) await end(agent);
}
process.exit(0);
