/**
 * Makes elements. Text of agents becomes text nodes and nothing else, everywhere on the page.
 *
 * @typedef {{class?: string, on?: Record<string, (event: any) => void>,
 *   [attribute: string]: any}} Attributes
 */

/** Where a link of an agent may lead. */
const SCHEMES = new Set(["http:", "https:", "mailto:"]);

/**
 * An element with attributes, listeners (`on`) and children; a child that is null is left out.
 *
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Attributes} [attributes]
 * @param {...(Node | string | null | undefined)} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") made.className = value;
    else if (key === "on") {
      for (const [type, listen] of Object.entries(value)) {
        made.addEventListener(type, /** @type {EventListener} */ (listen));
      }
    } else made.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}

/**
 * A button.
 *
 * @param {string} text
 * @param {(event: MouseEvent) => void} press
 * @param {Attributes} [attributes]
 */
export function button(text, press, attributes = {}) {
  return el("button", { type: "button", ...attributes, on: { click: press } }, text);
}

/**
 * A link of an agent, or its text if it leads where no link of theirs may lead.
 *
 * @param {string} url
 * @param {...(Node | string)} children
 */
export function link(url, ...children) {
  if (!isSafe(url)) return el("span", {}, ...children);
  const attributes = { href: url, rel: "noopener noreferrer", target: "_blank" };
  return el("a", attributes, ...children);
}

/** @param {string} url */
function isSafe(url) {
  try {
    return SCHEMES.has(new URL(url).protocol);
  } catch {
    return false;
  }
}

/**
 * An element of `index.html` by its id.
 *
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`index.html has no element ${id}`);
  return found;
}

/**
 * Replaces the children of an element only if they differ, so that focus and selection stay.
 *
 * @param {Element} parent
 * @param {unknown} state what the children are made of
 * @param {() => (Node | string | null)[]} make
 */
export function redraw(parent, state, make) {
  const written = JSON.stringify(state) ?? "";
  if (states.get(parent) === written) return;
  states.set(parent, written);
  const focused = focusedPart(parent);
  parent.replaceChildren(...make().filter((child) => child !== null));
  restoreFocus(parent, focused);
}

/** @type {WeakMap<Element, string>} */
const states = new WeakMap();

/**
 * The `data-part` of what has the focus inside an element.
 *
 * @param {Element} parent
 */
export function focusedPart(parent) {
  const focused = document.activeElement;
  if (!focused || focused === parent || !parent.contains(focused)) return null;
  return focused.getAttribute("data-part");
}

/**
 * Gives the focus to the element with this `data-part`, after all was drawn again.
 *
 * @param {Element} parent
 * @param {string | null} part
 */
export function restoreFocus(parent, part) {
  if (part === null) return;
  const again = [...parent.querySelectorAll("[data-part]")].find(
    (each) => each.getAttribute("data-part") === part,
  );
  if (again instanceof HTMLElement) again.focus({ preventScroll: true });
}
