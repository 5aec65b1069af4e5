/**
 * Files that go with a prompt: pasted, dropped or chosen, as far as the agent takes their kind.
 *
 * @typedef {{name: string, mime: string, data: string}} Attachment
 * @typedef {{image?: boolean, audio?: boolean, embedded?: boolean}} Capabilities
 */

import { button, byId, el } from "./elements.js";
import { report } from "./status.js";

/** Bytes of all attachments; the server takes messages of 32 MiB, and base64 adds a third. */
const MOST_BYTES = 20 * 1024 * 1024;

export class Attachments {
  /**
   * @param {HTMLElement} target where files may be dropped
   * @param {HTMLElement} text where they may be pasted
   */
  constructor(target, text) {
    this.list = /** @type {HTMLElement} */ (byId("attachments"));
    this.input = /** @type {HTMLInputElement} */ (byId("file-input"));
    this.attach = /** @type {HTMLButtonElement} */ (byId("attach"));
    /** @type {Attachment[]} */
    this.items = [];
    /** @type {Capabilities} */
    this.allowed = {};
    this.attach.addEventListener("click", () => this.input.click());
    this.input.addEventListener("change", () => {
      this.add([...(this.input.files ?? [])]);
      this.input.value = "";
    });
    text.addEventListener("paste", (event) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (!files.length) return;
      event.preventDefault();
      this.add(files);
    });
    target.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      target.classList.add("dropping");
    });
    target.addEventListener("dragleave", () => target.classList.remove("dropping"));
    target.addEventListener("drop", (event) => {
      target.classList.remove("dropping");
      const files = [...(event.dataTransfer?.files ?? [])];
      if (!files.length) return;
      event.preventDefault();
      this.add(files);
    });
  }

  /** @param {Capabilities} capabilities what the agent takes */
  allow(capabilities) {
    this.allowed = capabilities;
    this.attach.hidden = !(capabilities.image || capabilities.audio || capabilities.embedded);
  }

  /** @returns {Attachment[]} */
  taken() {
    return [...this.items];
  }

  /** @param {Attachment[]} items */
  restore(items) {
    this.items = [...items, ...this.items];
    this.draw();
  }

  clear() {
    this.items = [];
    this.draw();
  }

  /** @param {File[]} files */
  async add(files) {
    for (const file of files) {
      const refusal = this.refusal(file);
      if (refusal) {
        report(refusal, "warning");
        continue;
      }
      const data = await base64(file);
      this.items.push({ name: file.name || "pasted", mime: file.type || "text/plain", data });
      this.draw();
    }
  }

  /**
   * @param {File} file
   * @returns {string} why it cannot be attached; empty if it can
   */
  refusal(file) {
    const { image, audio, embedded } = this.allowed;
    const name = file.name || "this file";
    if (file.type.startsWith("image/") && !image)
      return `This agent takes no pictures: ${name} is not attached.`;
    if (file.type.startsWith("audio/") && !audio)
      return `This agent takes no sounds: ${name} is not attached.`;
    if (!/^(image|audio)\//.test(file.type) && !embedded)
      return `This agent takes no files: ${name} is not attached.`;
    const size = this.items.reduce((sum, item) => sum + item.data.length * 0.75, file.size);
    return size > MOST_BYTES ? `${name} is too large: attachments may have 20 MB in all.` : "";
  }

  draw() {
    this.list.hidden = !this.items.length;
    this.list.replaceChildren(
      ...this.items.map((item) => {
        const remove = () => {
          this.items = this.items.filter((each) => each !== item);
          this.draw();
        };
        const cross = button("×", remove, { class: "quiet", "aria-label": `Remove ${item.name}` });
        return el("li", {}, item.name, " ", cross);
      }),
    );
  }
}

/**
 * @param {File} file
 * @returns {Promise<string>}
 */
function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result).split(",")[1] ?? ""));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}
