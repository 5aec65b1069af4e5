/**
 * Prints a session: the page holds only what is near the screen, so the server makes a document of
 * all of it, which is opened and printed.
 */

import { report } from "./status.js";

/** How often is looked whether the document has arrived, in milliseconds. */
const PAUSE = 150;

/** @param {string} session */
export function printSession(session) {
  const address = `/session/${encodeURIComponent(session)}/print`;
  const opened = open(address, "_blank");
  if (!opened) {
    report("The browser did not open the document. Allow this page to open windows.", "error");
    return;
  }
  const timer = setInterval(() => {
    if (!opened.closed && !hasArrived(opened, address)) return;
    clearInterval(timer);
    if (!opened.closed) opened.print();
  }, PAUSE);
}

/**
 * @param {Window} opened
 * @param {string} address
 */
function hasArrived(opened, address) {
  try {
    return opened.location.pathname === address && opened.document.readyState === "complete";
  } catch {
    return false; // it shows an error of the browser, which is none of our pages
  }
}
