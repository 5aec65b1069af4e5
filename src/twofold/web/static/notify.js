/**
 * Notifications of the browser, when a question waits or a turn has ended while nobody looks.
 *
 * @import {Facts} from "./contract.js"
 */

import { byId } from "./elements.js";
import { report } from "./status.js";

export class Notify {
  constructor() {
    this.button = /** @type {HTMLButtonElement} */ (byId("notify"));
    this.wanted = localStorage.getItem("notify") === "yes";
    /** @type {Set<string>} */
    this.asked = new Set();
    this.state = "";
    this.session = "";
    this.button.hidden = !("Notification" in window);
    this.button.addEventListener("click", () => this.switch());
    this.draw();
  }

  async switch() {
    if (this.wanted) this.wanted = false;
    else {
      this.wanted = (await Notification.requestPermission()) === "granted";
      if (!this.wanted) report("The browser does not allow notifications of this page.", "warning");
    }
    localStorage.setItem("notify", this.wanted ? "yes" : "no");
    this.draw();
  }

  draw() {
    this.button.setAttribute("aria-pressed", String(this.wanted));
  }

  /** @param {Facts} facts */
  refresh(facts) {
    const { session, questions = [] } = facts;
    if (!session) return;
    const isAnother = session.id !== this.session;
    const fresh = questions.filter((each) => !this.asked.has(each.question));
    const wasRunning = ["running", "waiting"].includes(this.state);
    this.session = session.id;
    this.asked = new Set(questions.map((each) => each.question));
    this.state = session.state;
    if (isAnother) return;
    const title = session.title || session.agent;
    if (fresh.length) this.send("The agent asks", `${title}: ${fresh[0].title}`);
    else if (wasRunning && ["idle", "failed"].includes(session.state))
      this.send("The turn has ended", title);
  }

  /**
   * @param {string} title
   * @param {string} body
   */
  send(title, body) {
    if (!this.wanted || !document.hidden || Notification.permission !== "granted") return;
    const made = new Notification(title, { body, tag: this.session });
    made.addEventListener("click", () => {
      window.focus();
      made.close();
    });
  }
}
