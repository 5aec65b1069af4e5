/**
 * The page: connects its parts.
 *
 * The address names what is shown: `#session`, or `#session/at` for a place in it.
 *
 * @import {Frame, SessionFacts, Welcome} from "./contract.js"
 */

import { Announcer } from "./announce.js";
import { setServerTime } from "./clock.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { Controls } from "./controls.js";
import { Conversation } from "./conversation.js";
import { byId } from "./elements.js";
import { Follow } from "./follow.js";
import { Keys } from "./keys.js";
import { Mirror } from "./mirror.js";
import { NewSession } from "./new_session.js";
import { Notify } from "./notify.js";
import { PlanPanel } from "./plan_panel.js";
import { printSession } from "./print.js";
import { Questions } from "./questions.js";
import { Search } from "./search.js";
import { SessionMenu } from "./session_menu.js";
import { Sessions } from "./sessions.js";
import { report, showConnection } from "./status.js";

/** A window behind every end: how many places there are is in the answer. */
const NOTHING = 2 ** 31 - 1;

class Page {
  constructor() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.connection = new Connection(`${scheme}//${location.host}/live`, {
      message: (message) => this.receive(message),
      open: () => this.connected(),
      lost: (delay) => this.lost(delay),
    });
    /** @type {Welcome | null} */
    this.welcome = null;
    /** @type {Mirror | null} */
    this.mirror = null;
    /** Whether the session that is shown is being observed. */
    this.isLive = false;
    /** @type {Set<string>} answers that were given before somebody could look */
    this.answered = new Set();
    /** @type {number | null} how many problems of the session were reported */
    this.problems = null;
    this.follow = new Follow();
    const openFile = (/** @type {any} */ place) => this.follow.open(place);
    this.conversation = new Conversation(this.connection, openFile);
    this.composer = new Composer(this.connection, () => this.cancel());
    this.questions = new Questions(this.connection, openFile, () => this.afterQuestion());
    this.questions.onAnswered = () => this.refresh();
    this.sessions = new Sessions(this.connection);
    this.newSession = new NewSession(this.connection, (id) => this.go(id));
    this.menu = new SessionMenu(this.sessions, () => this.mirror);
    this.controls = new Controls(this.connection);
    this.plan = new PlanPanel();
    this.notify = new Notify();
    this.announcer = new Announcer();
    this.search = new Search(
      this.connection,
      () => this.sessions.sessions,
      () => this.mirror?.id ?? "",
      (text) => {
        this.conversation.wantedText = text;
      },
    );
    this.keys = new Keys(
      this.bindings(),
      (event) => this.questions.key(event),
      () => this.escape(),
    );
    addEventListener("hashchange", () => this.route());
    byId("new").addEventListener("click", () => this.newSession.show());
    byId("search-open").addEventListener("click", () => this.search.show());
    byId("sidebar-toggle").addEventListener("click", () => this.showSidebar());
    byId("sidebar").addEventListener("click", (/** @type {Event} */ event) => {
      if (event.target instanceof Element && event.target.closest("a")) this.showSidebar(false);
    });
    byId("prompt").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) =>
      this.promptKey(event),
    );
    showConnection("Connecting …");
  }

  // ---- the connection

  connected() {
    showConnection(null);
    if (this.mirror) this.observe(this.mirror);
  }

  /** @param {number} delay */
  lost(delay) {
    this.setLive(false);
    const seconds = Math.ceil(delay / 1000);
    showConnection(
      `The connection is lost. Trying again in ${seconds} s. What you write stays here.`,
    );
    this.refresh();
  }

  /** @param {any} message */
  receive(message) {
    switch (message.type) {
      case "welcome":
        this.welcome = message;
        setServerTime(message.now);
        this.newSession.refresh(message);
        byId("who").textContent =
          message.role === "observer" ? `${message.name} (may only look)` : message.name;
        this.refresh();
        return;
      case "sessions":
        this.listed(message.sessions);
        return;
      case "opened":
        this.opened(message);
        return;
      case "frame":
        if (this.mirror && this.isLive) this.apply(this.mirror, message);
        return;
      case "closed":
        this.closed(message);
        return;
      case "error":
        report(message.message, "error");
    }
  }

  get mayControl() {
    return this.welcome?.role !== "observer";
  }

  /** @param {boolean} isLive */
  setLive(isLive) {
    this.isLive = isLive;
    this.conversation.isLive = isLive;
  }

  // ---- which session

  /** @param {SessionFacts[]} sessions */
  listed(sessions) {
    this.sessions.refresh(sessions);
    if (!this.mirror) this.route();
  }

  /** @param {string} id */
  go(id) {
    location.hash = `#${id}`;
  }

  route() {
    const [id = "", at = ""] = decodeURIComponent(location.hash.slice(1)).split("/");
    const first = this.sessions.sessions[0]?.id;
    const wanted = id || first || "";
    byId("no-session").hidden = !!wanted;
    if (wanted && wanted !== this.mirror?.id) this.openSession(wanted, at);
    else if (at !== "") this.conversation.goTo(Number(at));
  }

  /**
   * @param {string} id
   * @param {string} at
   */
  openSession(id, at) {
    const mirror = new Mirror(id);
    this.mirror = mirror;
    this.setLive(false);
    this.answered.clear();
    this.problems = null;
    this.announcer.reset();
    this.conversation.show(mirror);
    if (at !== "") this.conversation.goTo(Number(at));
    this.sessions.select(id);
    this.composer.show(id);
    this.refresh();
    if (this.connection.isOpen) this.observe(mirror);
  }

  /** @param {Mirror} mirror */
  async observe(mirror) {
    const { id, epoch, seq } = mirror;
    const since = seq < 0 ? {} : { epoch, since: seq };
    if (seq < 0) mirror.setWindow(NOTHING, null);
    else mirror.keepArrived();
    try {
      await this.connection.request("open", {
        session: id,
        ...since,
        window: [mirror.from, mirror.to],
      });
    } catch (error) {
      if (mirror !== this.mirror || !this.connection.isOpen) return;
      this.closed({ session: id, reason: /** @type {Error} */ (error).message });
    }
  }

  /** @param {any} message */
  opened(message) {
    const { mirror } = this;
    if (!mirror || mirror.id !== message.session) return;
    const { resumed } = message;
    if (!resumed) {
      const again = mirror.seq >= 0;
      mirror.reset();
      if (again) this.conversation.show(mirror);
    }
    mirror.epoch = message.epoch;
    this.setLive(true);
    mirror.settle();
    const { frame } = message;
    this.apply(mirror, {
      ...frame,
      count: message.count,
      facts: { ...message.facts, ...frame.facts },
    });
    this.conversation.arrived();
    this.refresh();
  }

  /** @param {any} message */
  closed(message) {
    if (message.session !== this.mirror?.id) return;
    report(message.reason || "The session was closed.", "warning");
    this.setLive(false);
    this.mirror = null;
    this.conversation.show(null);
    this.sessions.select("");
    this.refresh();
    history.replaceState(null, "", location.pathname);
    byId("no-session").hidden = false;
  }

  /**
   * @param {Mirror} mirror
   * @param {Frame} frame
   */
  apply(mirror, frame) {
    const changes = mirror.apply(frame);
    this.conversation.changed(mirror, changes);
    this.announcer.changed(mirror, changes);
    this.follow.refresh(mirror);
    if (changes.facts.length) this.refresh();
  }

  refresh() {
    const facts = this.mirror?.facts ?? {};
    const enabled = this.isLive && this.mayControl;
    this.composer.refresh(facts, this.isLive, this.mayControl);
    this.questions.refresh(facts.questions ?? [], this.isLive, this.mayControl);
    this.controls.refresh(facts, enabled);
    this.menu.refresh(facts, enabled);
    this.plan.refresh(facts.plan ?? []);
    this.notify.refresh(facts);
    this.reportAnswers(facts);
    this.reportProblems(facts);
    this.follow.refresh(this.mirror);
  }

  /** @param {import("./contract.js").Facts} facts */
  reportAnswers(facts) {
    if (!this.isLive) return;
    const answers = facts.answered ?? [];
    const isFirst = !this.answered.size;
    for (const each of answers) {
      if (!isFirst && !this.answered.has(each.question) && each.by !== this.welcome?.name) {
        report(each.words);
      }
      this.answered.add(each.question);
    }
    this.answered.add("");
  }

  /** @param {import("./contract.js").Facts} facts */
  reportProblems(facts) {
    if (!this.isLive) return;
    const problems = facts.problems ?? [];
    const known = this.problems ?? problems.length;
    for (const each of problems.slice(known).slice(-3)) report(each.words, "warning");
    this.problems = problems.length;
  }

  // ---- what the person does

  cancel() {
    const state = this.mirror?.facts.session?.state ?? "";
    if (!this.mayControl || !this.isLive || !["running", "waiting"].includes(state)) return false;
    this.connection.request("cancel").catch((error) => report(error.message, "error"));
    return true;
  }

  afterQuestion() {
    this.composer.hold();
    this.composer.focus();
  }

  escape() {
    if (document.body.classList.contains("sidebar-open")) this.showSidebar(false);
    else if (!this.cancel() && this.follow.isOpen) this.follow.setOpen(false);
  }

  /** @param {boolean} [open] */
  showSidebar(open) {
    const isOpen = document.body.classList.toggle("sidebar-open", open);
    byId("sidebar-toggle").setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.focusList();
    else if (byId("sidebar").contains(document.activeElement)) byId("sidebar-toggle").focus();
  }

  /** @param {KeyboardEvent} event */
  promptKey(event) {
    const isEmpty = byId("prompt").value === "";
    if (event.key !== "Tab" || event.shiftKey || !isEmpty || !this.questions.shown) return;
    event.preventDefault();
    this.questions.focus();
  }

  /** The composer, the question if there is one, the conversation, and around. */
  nextPane() {
    const panes = [byId("question"), byId("prompt"), byId("conversation")].filter(
      (each) => !each.hidden,
    );
    const at = panes.findIndex((each) => each.contains(document.activeElement));
    const next = panes[(at + 1) % panes.length];
    if (next.id === "question") this.questions.focus();
    else next.focus();
  }

  /** @returns {import("./keys.js").Binding[]} */
  bindings() {
    const to = (/** @type {1 | -1} */ step) => () => {
      const id = this.sessions.neighbour(step);
      if (id) this.go(id);
    };
    return [
      { key: "?", words: "this list" },
      { key: "Escape", words: "cancel the turn; leave a menu, a dialog or the question" },
      { key: "c", words: "write a prompt", run: () => this.composer.focus() },
      {
        key: "F6",
        words: "from the question to the prompt to the conversation",
        run: () => this.nextPane(),
      },
      { key: "j", words: "next block", run: () => this.conversation.step(1) },
      { key: "k", words: "previous block", run: () => this.conversation.step(-1) },
      {
        key: "e",
        words: "to the end of the conversation",
        run: () => this.conversation.list.toEnd(),
      },
      {
        key: "t",
        words: "open or close all thoughts",
        run: () => this.conversation.toggleThoughts(),
      },
      {
        key: "f",
        words: "follow along: the file the agent is at",
        run: () => this.follow.setOpen(!this.follow.isOpen),
      },
      { key: "/", words: "search", run: () => this.search.show() },
      { key: "s", words: "the list of sessions", run: () => this.focusSessions() },
      { key: "+", words: "new session", run: () => this.newSession.show() },
      { key: "m", words: "what can be done with this session", run: () => this.menu.show() },
      { key: "Ctrl+P", words: "print all of the session", run: () => this.print() },
      { key: "Alt+Up", words: "previous session", run: to(-1) },
      { key: "Alt+Down", words: "next session", run: to(1) },
    ];
  }

  print() {
    if (this.mirror) printSession(this.mirror.id);
    else window.print();
  }

  focusSessions() {
    if (matchMedia("(max-width: 56rem)").matches) this.showSidebar(true);
    else this.focusList();
  }

  focusList() {
    const list = byId("sessions");
    (list.querySelector("[aria-current]") ?? list.querySelector("a") ?? byId("new")).focus();
  }
}

new Page();
