/**
 * Draws what is not text: pictures and sounds that are in the session, links, and what is unknown.
 *
 * Bytes come from our own server and are shown as `blob:`. What is somewhere else is named and
 * never loaded.
 *
 * @import {Context} from "./context.js"
 * @import {Piece} from "../contract.js"
 */

import { button, el, link } from "../elements.js";
import { details } from "./folding.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const SOUND = /^audio\/[\w.+-]+$/;

/**
 * @param {Piece} item
 * @param {Context} context
 * @param {string} part
 * @returns {HTMLElement}
 */
export function described(item, context, part) {
  const { media, text = "", raw } = item;
  if (raw !== undefined) return unknown(text, raw, context, `${part} raw`);
  if (!media) return el("p", { class: "facts" }, text);
  const { kind, mime, url, path, description } = media;
  if (kind === "image" && mime && PICTURES.has(mime)) return figure(item, context, picture);
  if (kind === "audio" && mime && SOUND.test(mime)) return figure(item, context, sound);
  const name = url ? link(url, text) : path ? fileButton(path, text, context) : text;
  const made = el("div", { class: "facts described" }, name);
  if (description) made.append(el("p", {}, description));
  return made;
}

/**
 * @param {string} path
 * @param {string} text
 * @param {Context} context
 */
function fileButton(path, text, context) {
  return button(text, () => context.openFile({ path }), {
    class: "location",
    "data-part": `location ${path}`,
    title: `Open ${path}`,
  });
}

/** @type {Show} */
const picture = (url, item) => {
  const image = el("img", { src: url, alt: item.text ?? "", decoding: "async" });
  // enlarged, and not blurred by that
  image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth < 160));
  image.addEventListener("error", () =>
    image.replaceWith(el("p", { class: "facts" }, "This picture cannot be shown.")),
  );
  return image;
};

/** @type {Show} */
const sound = (url) => el("audio", { src: url, controls: true, preload: "metadata" });

/**
 * @typedef {(url: string, item: Piece) => HTMLElement} Show
 *
 * @param {Piece} item
 * @param {Context} context
 * @param {Show} show
 */
function figure(item, context, show) {
  const caption = el("figcaption", { class: "facts" }, item.text);
  const made = el("figure", { class: "picture" }, caption);
  if (item.media?.n === undefined) return made;
  context.media(context.key, item.media).then(
    (url) => made.prepend(show(url, item)),
    (error) => caption.append(` could not be loaded: ${error.message}`),
  );
  return made;
}

/**
 * Something of a kind that we do not know, with what was sent.
 *
 * @param {string} name
 * @param {unknown} raw
 * @param {Context} context
 * @param {string} part
 */
export function unknown(name, raw, context, part) {
  const json = typeof raw === "string" ? raw : JSON.stringify(raw, null, 2);
  const code = el("pre", { tabindex: "0" }, json);
  return details(context, part, el("span", {}, name), { class: "unknown" }, code);
}
