// Serves an agent of the TypeScript SDK at /acp: streamable HTTP, and a WebSocket unless the variable
// NO_WEBSOCKET is set.
//
// The first line of output is the port. It ends when stdin does.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const LARGE = 32 * 1024 * 1024;

export async function serve(sdk, agent) {
  const load = (file) => import(pathToFileURL(join(sdk, "dist", "transports", file)).href);
  const { AcpServer } = await load("server.js");
  const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await load("node-adapter.js");
  const { WebSocketServer } = createRequire(join(sdk, "package.json"))("ws");

  const acp = new AcpServer({ agent });
  const answer = createNodeHttpHandler(acp, { maxRequestBodyBytes: LARGE });
  const server = createServer((request, response) => {
    if (new URL(request.url, "http://localhost").pathname === "/acp") answer(request, response);
    else response.writeHead(404).end();
  });
  if (!process.env.NO_WEBSOCKET) {
    const sockets = new WebSocketServer({ noServer: true, maxPayload: LARGE });
    server.on("upgrade", createNodeWebSocketUpgradeHandler(acp, sockets));
  }
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
  process.stdin.on("end", () => process.exit(0)).resume();
}
