// The verdict of the TypeScript SDK on a value, line by line.
//
//   node validate.mjs <folder of @agentclientprotocol/sdk>
//
// A line in: {"version": 1 | 2, "flavour"?: "stable" | "unstable", "type": "SessionNotification", "value": ...}
// A line out: {"ok": true, "value": what the SDK made of it} or {"ok": false, "error": "..."}
//
// The package exports no validators, so its generated ones are loaded by path: the very
// ones its connections parse with. A type the SDK does not know is an error, not a refusal.

import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const sdk = process.argv[2];
const FOLDERS = { stable: "schema", unstable: "unstable/schema" };
const loaded = new Map();

async function validators(version, flavour) {
  const path = join(sdk, "dist", `v${version}`, FOLDERS[flavour], "zod.gen.js");
  if (!loaded.has(path)) loaded.set(path, await import(pathToFileURL(path).href));
  return loaded.get(path);
}

async function answer({ version, flavour = "stable", type, value }) {
  const validator = (await validators(version, flavour))[`z${type}`];
  if (validator === undefined) return { unknown: true, error: `no validator for ${type}` };
  const result = validator.safeParse(value);
  if (result.success) return { ok: true, value: result.data };
  return { ok: false, error: JSON.stringify(result.error.issues) };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await answer(JSON.parse(line))) + "\n");
}
