// What a list of entries adds up to, in either version: the facts of README.md.

const CONVERSATION = /^(user|agent)_(message|thought)(_chunk)?$|^tool_call|^plan|^terminal/;

export const isConversation = ({ sessionUpdate }) => CONVERSATION.test(sessionUpdate);
export const isAgents = (update) => isConversation(update) && !isUsers(update);
// commands are sent at any time, and are of no turn
export const isOfTurn = ({ sessionUpdate }) => sessionUpdate !== "available_commands_update";
export const isAgentMessage = ({ sessionUpdate }) => /^agent_message/.test(sessionUpdate);
const isUsers = ({ sessionUpdate }) => sessionUpdate.startsWith("user_");

const textOf = (content) =>
  content == null ? "" : [content].flat().map((block) => block.text ?? "").join("");

/** One update of a replay. */
export function replayed(update) {
  const spoken = /_(message|thought)(_chunk)?$/.test(update.sessionUpdate);
  const call = update.sessionUpdate.startsWith("tool_call");
  return {
    kind: update.sessionUpdate,
    text: spoken ? textOf(update.content) : null,
    id: call ? update.toolCallId : null,
    status: call ? (update.status ?? null) : null,
  };
}

/** The texts, calls, plan and terminals of a turn; `nullClears` is v2's rule for patches. */
export class Picture {
  #texts = { message: new Map(), thought: new Map() };
  #calls = new Map();
  #terminals = new Map();
  plan = null;

  constructor(entries, nullClears) {
    this.nullClears = nullClears;
    for (const { update, request } of entries) {
      if (update) this.#apply(update);
      const call = request?.toolCall ?? request?.subject?.toolCall;
      if (call) this.#patchCall(call);
    }
  }

  get text() {
    return [...this.#texts.message.values()].join("");
  }

  get thoughts() {
    return [...this.#texts.thought.values()].join("");
  }

  get calls() {
    const facts = ([id, { status = "pending", kind = "other", content }]) => [
      id,
      { status, kind, content: (content ?? []).map(({ type }) => type) },
    ];
    return Object.fromEntries([...this.#calls].map(facts));
  }

  get terminals() {
    const facts = ([id, { bytes, exitStatus }]) => [
      id,
      { output: bytes.toString(), exit: exitStatus?.exitCode ?? null },
    ];
    return Object.fromEntries([...this.#terminals].map(facts));
  }

  #apply(update) {
    const { sessionUpdate: tag } = update;
    const spoken = /^agent_(message|thought)(_chunk)?$/.exec(tag);
    if (spoken) this.#speak(this.#texts[spoken[1]], update, spoken[2] !== undefined);
    else if (tag === "tool_call") this.#calls.set(update.toolCallId, update);
    else if (tag === "tool_call_update") this.#patchCall(update);
    else if (tag === "tool_call_content_chunk") this.#appendToCall(update);
    else if (tag === "plan") this.plan = planFacts(update.entries);
    else if (tag === "plan_update") this.plan = planFacts(update.plan.entries ?? []);
    else if (tag === "terminal_update") this.#patchTerminal(update);
    else if (tag === "terminal_output_chunk") this.#appendToTerminal(update);
  }

  #speak(texts, { messageId = "", content }, isChunk) {
    const before = isChunk || content === undefined ? (texts.get(messageId) ?? "") : "";
    texts.set(messageId, before + textOf(content));
  }

  #patchCall(patch) {
    const call = { ...this.#calls.get(patch.toolCallId) };
    for (const [name, value] of Object.entries(patch)) {
      if (value !== null) call[name] = value;
      else if (this.nullClears) delete call[name];
    }
    this.#calls.set(patch.toolCallId, call);
  }

  #appendToCall({ toolCallId, content }) {
    const before = this.#calls.get(toolCallId)?.content ?? [];
    this.#patchCall({ toolCallId, content: [...before, content] });
  }

  #terminal(id) {
    if (!this.#terminals.has(id)) this.#terminals.set(id, { bytes: Buffer.alloc(0) });
    return this.#terminals.get(id);
  }

  #patchTerminal({ terminalId, output, exitStatus }) {
    const terminal = this.#terminal(terminalId);
    if (output !== undefined) terminal.bytes = Buffer.from(output?.data ?? "", "base64");
    if (exitStatus !== undefined) terminal.exitStatus = exitStatus;
  }

  #appendToTerminal({ terminalId, data }) {
    const terminal = this.#terminal(terminalId);
    terminal.bytes = Buffer.concat([terminal.bytes, Buffer.from(data, "base64")]);
  }
}

const planFacts = (entries) =>
  entries.map(({ content, priority, status }) => ({ content, priority, status }));
