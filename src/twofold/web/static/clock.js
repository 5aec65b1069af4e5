/** The clock of the server, which may be another one than that of this device, and durations. */

/** By how many seconds the server is ahead of this device. */
let ahead = 0;

/** @param {number | undefined} now the server's time, in seconds of Unix time */
export function setServerTime(now) {
  if (typeof now === "number") ahead = now - Date.now() / 1000;
}

/**
 * How many seconds ago it was, on the clock of the server.
 *
 * @param {number} since in seconds of Unix time
 */
export function secondsSince(since) {
  return Math.max(0, Date.now() / 1000 + ahead - since);
}

/**
 * A duration that goes on, in whole seconds.
 *
 * @param {number} seconds
 */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const minutes = Math.floor(whole / 60);
  if (minutes < 1) return `${whole} s`;
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/**
 * A duration that has ended: a short one with its tenths.
 *
 * @param {number} seconds
 */
export function ended(seconds) {
  return seconds < 9.95 ? `${seconds.toFixed(1)} s` : duration(Math.round(seconds));
}
