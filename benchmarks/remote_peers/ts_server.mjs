// The agent of `stdio_peers/ts_agent.mjs`, version 2, as a server with the official TypeScript SDK.
//
//   node ts_server.mjs <folder of @agentclientprotocol/sdk>

import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { serve } from "../../tests/peers/ts_serve.mjs";

const [sdk] = process.argv.slice(2);
const acp = await import(pathToFileURL(join(sdk, "dist", "v2", "stable", "acp.js")).href);
const { agent: here, client: there } = acp.methods;

async function work({ sessionId, prompt }, client) {
  const update = (update) => client.notify(there.session.update, { sessionId, update });
  const { pieces, count } = JSON.parse(prompt[0].text);
  await update({ sessionUpdate: "user_message", messageId: "msg_user", content: prompt });
  await update({ sessionUpdate: "state_update", state: "running" });
  for (let number = 0; number < count; number++) {
    const content = { type: "text", text: pieces[number % pieces.length] };
    await update({ sessionUpdate: "agent_message_chunk", messageId: "msg_agent", content });
  }
  await update({ sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" });
}

const initialized = {
  protocolVersion: 2,
  info: { name: "bench", version: "1.0" },
  capabilities: { session: {} },
};

const agent = acp
  .agent({ name: "bench" })
  .onRequest(here.initialize, () => initialized)
  .onRequest(here.session.new, () => ({ sessionId: "sess_1" }))
  .onRequest(here.session.prompt, ({ params, client }) => {
    void work(params, client);
    return { messageId: "msg_user" };
  });

await serve(sdk, agent);
