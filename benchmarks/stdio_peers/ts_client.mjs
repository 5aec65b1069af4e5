// A client written with the official TypeScript SDK.
//
//   node ts_client.mjs <folder of @agentclientprotocol/sdk> <1 | 2> <job>
//
// The job, and what is printed at the end, are those of the clients in Python: see job.py.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";

const [sdk, version, job] = process.argv.slice(2);
const acp = await import(pathToFileURL(join(sdk, "dist", `v${version}`, "stable", "acp.js")).href);
const { agent: there, client: here } = acp.methods;

const initialize = {
  1: { protocolVersion: 1, clientCapabilities: {} },
  2: { protocolVersion: 2, info: { name: "bench", version: "1.0" } },
};

let texts = [];
let becameIdle = () => {};

function handle({ params: { update } }) {
  if (update.sessionUpdate === "agent_message_chunk") texts.push(update.content.text);
  else if (update.sessionUpdate === "state_update" && update.state === "idle") becameIdle();
}

async function turn(agent, sessionId, { pieces }, count) {
  texts = [];
  const idle = new Promise((resolve) => (becameIdle = resolve));
  const text = JSON.stringify({ pieces, count });
  await agent.request(there.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  if (version === "2") await idle;
  return texts.join("");
}

async function median(ping, count) {
  const times = [];
  for (let number = 0; number < count; number++) {
    const start = performance.now();
    await ping();
    times.push(performance.now() - start);
  }
  return times.sort((one, other) => one - other)[count >> 1] / 1000;
}

async function carryOut(agent, job) {
  await agent.request(there.initialize, initialize[version]);
  const { sessionId } = await agent.request(there.session.new, { cwd: "/", mcpServers: [] });
  await turn(agent, sessionId, job, job.warm);
  const round_trip = await median(() => agent.request("_ping", {}), job.pings);
  const start = performance.now();
  const { length: characters } = await turn(agent, sessionId, job, job.updates);
  const seconds = (performance.now() - start) / 1000;
  console.log(JSON.stringify({ seconds, characters, round_trip }));
}

const program = fileURLToPath(new URL("ts_agent.mjs", import.meta.url));
const agent = spawn(process.execPath, [program, sdk, version], { stdio: ["pipe", "pipe", "inherit"] });
await acp
  .client({ name: "bench" })
  .onNotification(here.session.update, handle)
  .connectWith(
    acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)),
    (connected) => carryOut(connected, JSON.parse(job)),
  );
agent.kill();
