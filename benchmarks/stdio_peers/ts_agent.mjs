// An agent written with the official TypeScript SDK.
//
//   node ts_agent.mjs <folder of @agentclientprotocol/sdk> <1 | 2>

import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, version] = process.argv.slice(2);
const acp = await import(pathToFileURL(join(sdk, "dist", `v${version}`, "stable", "acp.js")).href);
const { agent: here, client: there } = acp.methods;

const initialized = {
  1: { protocolVersion: 1, agentCapabilities: {} },
  2: { protocolVersion: 2, info: { name: "bench", version: "1.0" }, capabilities: { session: {} } },
};

async function stream(client, sessionId, prompt) {
  const { pieces, count } = JSON.parse(prompt);
  for (let number = 0; number < count; number++) {
    await client.notify(there.session.update, {
      sessionId,
      update: {
        sessionUpdate: "agent_message_chunk",
        messageId: "msg_agent",
        content: { type: "text", text: pieces[number % pieces.length] },
      },
    });
  }
}

async function answerV1({ params, client }) {
  await stream(client, params.sessionId, params.prompt[0].text);
  return { stopReason: "end_turn" };
}

async function work({ sessionId, prompt }, client) {
  const update = (update) => client.notify(there.session.update, { sessionId, update });
  await update({ sessionUpdate: "user_message", messageId: "msg_user", content: prompt });
  await update({ sessionUpdate: "state_update", state: "running" });
  await stream(client, sessionId, prompt[0].text);
  await update({ sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" });
}

function answerV2({ params, client }) {
  void work(params, client);
  return { messageId: "msg_user" };
}

acp
  .agent({ name: "bench" })
  .onRequest(here.initialize, () => initialized[version])
  .onRequest(here.session.new, () => ({ sessionId: "sess_1" }))
  .onRequest(here.session.prompt, version === "1" ? answerV1 : answerV2)
  .onRequest("_ping", (params) => params, () => ({}))
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
