// What a client asks, and how it reads the answers, in each version of the protocol.

const CLIENT = { name: "ts-client", version: "2.4.0" };
const offers = (capability) => capability !== undefined && capability !== null;

export const v1 = {
  nullClears: false,

  initialize: {
    protocolVersion: 1,
    clientInfo: CLIENT,
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
  },
  agent: ({ agentInfo, authMethods = [] }) => ({
    info: agentInfo ? { name: agentInfo.name, version: agentInfo.version } : null,
    auth: authMethods.map(({ id }) => id),
  }),
  offered: ({ agentCapabilities: { loadSession, sessionCapabilities = {} } = {} }) => ({
    replay: loadSession === true,
    list: offers(sessionCapabilities.list),
    resume: offers(sessionCapabilities.resume),
    close: offers(sessionCapabilities.close),
    delete: offers(sessionCapabilities.delete),
  }),

  modes: ({ modes }) =>
    modes
      ? { current: modes.currentModeId, available: modes.availableModes.map(({ id }) => id) }
      : null,
  currentMode: (update) =>
    update.sessionUpdate === "current_mode_update" ? update.currentModeId : undefined,
  setMode: (agent, sessionId, modeId) =>
    agent.request("session/set_mode", { sessionId, modeId }),

  replayMethod: "session/load",
  replay: {},

  asked: ({ toolCall }) => toolCall.title ?? null,

  /** Prompts, and gives the end of the turn: its place among the entries and its text. */
  async turn(run, params) {
    const { stopReason } = await run.agent.request("session/prompt", params);
    return { to: await run.seen.answeredAt("session/prompt"), stop: stopReason };
  },
  orderOk: () => true,
};

const stateOf = (entry) =>
  entry.update?.sessionUpdate === "state_update" ? entry.update.state : undefined;

const modeOption = (options) =>
  (options ?? []).find(({ type, category }) => type === "select" && category === "mode");

export const v2 = {
  nullClears: true,

  initialize: { protocolVersion: 2, info: CLIENT, capabilities: {} },
  agent: ({ info, authMethods = [] }) => ({
    info: { name: info.name, version: info.version },
    auth: authMethods.map(({ methodId }) => methodId),
  }),
  offered: ({ capabilities: { session } = {} }) => ({
    replay: offers(session),
    list: offers(session),
    resume: offers(session),
    close: offers(session),
    delete: offers(session?.delete),
  }),

  modes({ configOptions }) {
    const option = modeOption(configOptions);
    if (option === undefined) return null;
    const values = option.options.flatMap((one) => one.options ?? [one]);
    return { current: option.currentValue, available: values.map(({ value }) => value) };
  },
  currentMode: (update) =>
    update.sessionUpdate === "config_option_update"
      ? modeOption(update.configOptions)?.currentValue
      : undefined,
  setMode: (agent, sessionId, value, configId) =>
    agent.request("session/set_config_option", { sessionId, configId, type: "id", value }),
  modeId: ({ configOptions }) => modeOption(configOptions)?.configId,

  replayMethod: "session/resume",
  replay: { replayFrom: { type: "start" } },

  asked: ({ title }) => title,

  /** Prompts, and waits for idle after running, whichever of these and the answer comes first. */
  async turn(run, params) {
    const { seen, from, signal } = run;
    await run.agent.request("session/prompt", params);
    const to = await seen.until(() => endOfTurn(seen.entries, from), signal);
    const { stopReason, error } = seen.entries[to - 1].update;
    return { to, stop: stopReason ?? null, error };
  },
  orderOk(entries, isAgents) {
    const running = entries.findIndex((entry) => stateOf(entry) === "running");
    return !entries.slice(0, running).some(({ update }) => update && isAgents(update));
  },
};

function endOfTurn(entries, from) {
  let running = false;
  for (let place = from; place < entries.length; place += 1) {
    const state = stateOf(entries[place]);
    if (running && state === "idle") return place + 1;
    running ||= state === "running";
  }
  return undefined;
}
