// The steps of README.md's client, in order: each does one thing and gives the facts of it.
//
// A step gets the run: agent, dialect, seen, session, the place `from` which its entries begin,
// a signal that ends its waiting, and two hooks that last as long as it does: `answer` for
// permission requests, `watch` for entries.

import { setTimeout as sleep } from "node:timers/promises";
import {
  Picture,
  isAgentMessage,
  isAgents,
  isConversation,
  isOfTurn,
  replayed,
} from "./ts_client_facts.mjs";

const LATE_MS = 50;
const LARGE = 20_000_000;
const MODE_MS = 1000;
const CANCELLED = { outcome: { outcome: "cancelled" } };
const NOT_OFFERED = "not offered";

async function initialize(run) {
  const answer = await run.agent.request("initialize", run.dialect.initialize);
  const wanted = run.dialect.initialize.protocolVersion;
  if (answer.protocolVersion !== wanted) {
    throw new Error(`asked for version ${wanted}, the agent answered ${answer.protocolVersion}`);
  }
  run.offered = run.dialect.offered(answer);
  return { version: answer.protocolVersion, ...run.dialect.agent(answer) };
}

async function newSession(run) {
  const answer = await run.agent.request("session/new", { cwd: run.cwd, mcpServers: [] });
  run.session = answer.sessionId;
  run.modeId = run.dialect.modeId?.(answer);
  run.modes = run.dialect.modes(answer);
  return { session: run.session, modes: run.modes };
}

/** One turn; the facts that every prompt has, and what it takes to find out more. */
async function turn(run, word) {
  const prompt = [{ type: "text", text: run.prompts[run.step] ?? run.prompts[word] ?? word }];
  const { to, stop, error } = await run.dialect.turn(run, { sessionId: run.session, prompt });
  const entries = run.seen.entries.slice(run.from, to);
  const picture = new Picture(entries, run.dialect.nullClears);
  return { to, stop, error, entries, picture, facts: { stop, text: picture.text } };
}

async function stream(run) {
  const { to, entries, picture, facts } = await turn(run, "stream");
  await sleep(LATE_MS);
  const late = run.seen.updates(to).filter(isConversation);
  return {
    ...facts,
    thoughts: picture.thoughts,
    updates: run.seen.updates(run.from, to).filter(isOfTurn).length,
    order_ok: late.length === 0 && run.dialect.orderOk(entries, isAgents),
  };
}

/** A prompt of 20 MB, which the agent repeats: "echo: " and the text. */
async function large(run) {
  run.prompts = { ...run.prompts, large: "x".repeat(LARGE) };
  const { facts } = await turn(run, "large");
  return { stop: facts.stop, length: facts.text.length };
}

async function tools(run) {
  const { picture, facts } = await turn(run, "tools");
  const { calls, plan, terminals } = picture;
  return { ...facts, calls, plan, ...(run.dialect.nullClears ? { terminals } : {}) };
}

function answering(kind) {
  return async (run) => {
    let request = null;
    run.answer = (params) => {
      request = params;
      const option = params.options.find((one) => one.kind === kind);
      if (option === undefined) return CANCELLED;
      return { outcome: { outcome: "selected", optionId: option.optionId } };
    };
    const { picture, facts } = await turn(run, "permission");
    return {
      ...facts,
      calls: picture.calls,
      options: request && request.options.map((one) => [one.optionId, one.kind]),
      asked: request && run.dialect.asked(request),
    };
  };
}

async function cancel(run) {
  let sent = false;
  run.watch = ({ update }) => {
    if (sent || !update || !isAgentMessage(update)) return;
    sent = true;
    run.agent.notify("session/cancel", { sessionId: run.session }).catch(() => {});
  };
  return (await turn(run, "slow")).facts;
}

async function cancelPermission(run) {
  run.answer = async () => {
    await run.agent.notify("session/cancel", { sessionId: run.session });
    return CANCELLED;
  };
  const { picture, facts } = await turn(run, "slow-permission");
  return { ...facts, calls: picture.calls };
}

async function error(run) {
  const facts = ({ stop = null, code = null, message = null }) => ({ stop, code, message });
  try {
    const ended = await turn(run, "error");
    return facts({ stop: ended.stop, ...ended.error });
  } catch (failure) {
    if (!Number.isInteger(failure.code)) throw failure;
    return facts({ code: failure.code, message: failure.message });
  }
}

async function mode(run) {
  if (run.modes === null) throw new Error(NOT_OFFERED);
  const found = () =>
    run.seen.updates(run.from).map(run.dialect.currentMode).findLast((one) => one !== undefined);
  await run.dialect.setMode(run.agent, run.session, "code", run.modeId);
  const limit = AbortSignal.any([run.signal, AbortSignal.timeout(MODE_MS)]);
  await run.seen.until(found, limit).catch(() => {});
  return { current: found() ?? null };
}

async function listed(run) {
  if (!run.offered.list) return null;
  const ids = [];
  let cursor;
  do {
    const page = await run.agent.request("session/list", cursor ? { cursor } : {});
    ids.push(...page.sessions.map(({ sessionId }) => sessionId));
    cursor = page.nextCursor;
  } while (cursor);
  return ids;
}

async function list(run) {
  if (!run.offered.list) throw new Error(NOT_OFFERED);
  return { ids: await listed(run) };
}

/** Loads or resumes; the answer, and the updates that came before it. */
async function reopen(run, method, more) {
  const params = { sessionId: run.session, cwd: run.cwd, mcpServers: [], ...more };
  const answer = await run.agent.request(method, params);
  return { answer, updates: run.seen.updates(run.from, await run.seen.answeredAt(method)) };
}

async function replay(run) {
  if (!run.offered.replay) throw new Error(NOT_OFFERED);
  const { dialect } = run;
  const { answer, updates } = await reopen(run, dialect.replayMethod, dialect.replay);
  return { updates: updates.map(replayed), modes: dialect.modes(answer) };
}

async function resume(run) {
  if (!run.offered.resume) throw new Error(NOT_OFFERED);
  const { updates } = await reopen(run, "session/resume", {});
  return {
    updates: updates.filter(isConversation).length,
    kinds: updates.map(({ sessionUpdate }) => sessionUpdate),
  };
}

async function close(run) {
  const facts = { closed: null, deleted: null };
  if (run.offered.close) {
    await run.agent.request("session/close", { sessionId: run.session });
    facts.closed = true;
  }
  if (run.offered.delete) {
    await run.agent.request("session/delete", { sessionId: run.session });
    facts.deleted = true;
  }
  return { ...facts, ids: await listed(run) };
}

/** Steps that run only if they are named. */
export const ON_REQUEST = ["large"];

export const STEPS = {
  initialize,
  new: newSession,
  stream,
  tools,
  allow: answering("allow_once"),
  reject: answering("reject_once"),
  cancel,
  cancel_permission: cancelPermission,
  error,
  mode,
  list,
  replay,
  resume,
  close,
  large,
};
