/**
 * Names places in files, each a button that opens the file beside the conversation.
 *
 * @import {Context} from "./context.js"
 * @import {Location} from "../contract.js"
 */

import { button, el } from "../elements.js";

/** How many are named before the others are counted. */
const SHOWN = 12;

/** @param {Location} location */
export function placeName(location) {
  const name = location.name || location.path;
  return location.line ? `${name}:${location.line}` : name;
}

/**
 * @param {Location} location
 * @param {Context} context
 */
export function locationButton(location, context) {
  return button(placeName(location), () => context.openFile(location), {
    class: "location",
    "data-part": `location ${placeName(location)}`,
    title: `Open ${location.path}`,
  });
}

/**
 * @param {Location[]} given
 * @param {Context} context
 * @returns {HTMLElement | null}
 */
export function locationList(given, context) {
  if (!given.length) return null;
  const made = el("div", { class: "locations" });
  for (const each of given.slice(0, SHOWN)) made.append(locationButton(each, context));
  const more = given.length - SHOWN;
  if (more > 0) made.append(el("span", { class: "facts" }, `and ${more} more`));
  return made;
}
