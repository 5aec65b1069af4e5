// How the agent of README.md sends its facts in each protocol version.
//
// A voice turns one fact into its updates, in order; a list is empty where the
// version has no word for the fact. Voices keep no state and send nothing.

const PLAN_ID = "plan";
const MODES = { ask: "Ask", code: "Code" };

const text = (value) => ({ type: "text", text: value });
const base64 = (value) => Buffer.from(value).toString("base64");

export const isMode = (value) => Object.hasOwn(MODES, value);

export const v1 = {
  initialized: (info) => ({
    protocolVersion: 1,
    agentInfo: info,
    agentCapabilities: {
      loadSession: true,
      sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {} },
    },
    authMethods: [{ id: "token", name: "Token" }],
  }),

  settings: (mode) => ({
    modes: {
      currentModeId: mode,
      availableModes: Object.entries(MODES).map(([id, name]) => ({ id, name })),
    },
  }),
  modeChanged: (mode) => [{ sessionUpdate: "current_mode_update", currentModeId: mode }],

  state: () => [],
  user: ({ blocks }) =>
    blocks.map((content) => ({ sessionUpdate: "user_message_chunk", content })),
  // the client of a v1 turn has what it sent
  echo: () => [],
  thoughtChunk: (_id, chunk) => [{ sessionUpdate: "agent_thought_chunk", content: text(chunk) }],
  messageChunk: (_id, chunk) => [{ sessionUpdate: "agent_message_chunk", content: text(chunk) }],
  message: (item) => v1.messageChunk(item.messageId, item.text),
  plan: (entries) => [{ sessionUpdate: "plan", entries }],

  newCall: (call) => [{ sessionUpdate: "tool_call", ...call }],
  callPatch: (patch) => [{ sessionUpdate: "tool_call_update", ...patch }],
  cancelledStatus: "failed",
  diff: ({ path, oldText, newText }) => ({ type: "diff", path, oldText, newText }),
  terminalOpened: () => [],
  terminalOutput: () => [],
  terminalExited: () => [],
  terminalWhole: () => [],
  // v1 terminals belong to the client: the output is text, when there is all of it
  runningContent: () => ({}),
  finishedContent: (output) => ({ content: [{ type: "content", content: text(output) }] }),

  withdraws: false,
  permission: (call, options) => ({
    toolCall: { toolCallId: call.toolCallId, title: call.title, kind: call.kind },
    options,
  }),
};

const v2Option = (mode) => ({
  type: "select",
  configId: "mode",
  name: "Mode",
  category: "mode",
  currentValue: mode,
  options: Object.entries(MODES).map(([value, name]) => ({ value, name })),
});

// of one-line files
const patchText = ({ path, oldText, newText }) =>
  `diff --git ${path} ${path}\n--- ${path}\n+++ ${path}\n@@ -1 +1 @@\n-${oldText}+${newText}`;

export const v2 = {
  initialized: (info) => ({
    protocolVersion: 2,
    info,
    capabilities: { session: { delete: {} } },
    authMethods: [{ type: "agent", methodId: "token", name: "Token" }],
  }),

  settings: (mode) => ({ configOptions: [v2Option(mode)] }),
  modeChanged: (mode) => [
    { sessionUpdate: "config_option_update", configOptions: [v2Option(mode)] },
  ],

  state: (state, more = {}) => [{ sessionUpdate: "state_update", state, ...more }],
  user: ({ messageId, blocks }) => [{ sessionUpdate: "user_message", messageId, content: blocks }],
  echo: (item) => v2.user(item),
  thoughtChunk: (messageId, chunk) => [
    { sessionUpdate: "agent_thought_chunk", messageId, content: text(chunk) },
  ],
  messageChunk: (messageId, chunk) => [
    { sessionUpdate: "agent_message_chunk", messageId, content: text(chunk) },
  ],
  message: (item) => [
    { sessionUpdate: "agent_message", messageId: item.messageId, content: [text(item.text)] },
  ],
  plan: (entries) => [
    { sessionUpdate: "plan_update", plan: { type: "items", planId: PLAN_ID, entries } },
  ],

  newCall: (call) => v2.callPatch(call),
  callPatch: (patch) => [{ sessionUpdate: "tool_call_update", ...patch }],
  cancelledStatus: "cancelled",
  diff: (change) => ({
    type: "diff",
    changes: [{ operation: "modify", path: change.path }],
    patch: { format: "git_patch", text: patchText(change) },
  }),
  terminalOpened: ({ terminalId, command, cwd }) => [
    { sessionUpdate: "terminal_update", terminalId, command, cwd },
  ],
  terminalOutput: (terminalId, output) => [
    { sessionUpdate: "terminal_output_chunk", terminalId, data: base64(output) },
  ],
  terminalExited: ({ terminalId, exitStatus }) => [
    { sessionUpdate: "terminal_update", terminalId, exitStatus },
  ],
  terminalWhole: ({ output, ...terminal }) => [
    { sessionUpdate: "terminal_update", ...terminal, output: { data: base64(output) } },
  ],
  runningContent: (terminalId) => ({ content: [{ type: "terminal", terminalId }] }),
  finishedContent: () => ({}),

  // v2: a cancel withdraws what was asked
  withdraws: true,
  permission: (call, options) => ({
    title: call.title,
    subject: { type: "tool_call", toolCall: { toolCallId: call.toolCallId } },
    options,
  }),
};
