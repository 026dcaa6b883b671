/** Numbers, times and the reasons of the server, in words. */

const numbers = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayAndClock = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

/** @param {number} value */
export const number = (value) => numbers.format(value);

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** @param {Date} date */
function startOfDay(date) {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
}

/** @param {string} iso @returns {string} the reader's own time; with the day when it is not today */
export function time(iso) {
  const date = new Date(iso);
  return startOfDay(date) === startOfDay(new Date()) ? clock.format(date) : dayAndClock.format(date);
}

/** @param {string} iso */
export const fullTime = (iso) => full.format(new Date(iso));

const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

/** @param {string} iso @returns {string} the day alone, with its year */
export const date = (iso) => day.format(new Date(iso));

/** @param {string | null} [iso] @returns {string} the reader's day as a date field has it; "" for none */
export function fieldDay(iso) {
  if (!iso) return "";
  const at = new Date(iso);
  const part = (/** @type {number} */ value, length = 2) => String(value).padStart(length, "0");
  return `${part(at.getFullYear(), 4)}-${part(at.getMonth() + 1)}-${part(at.getDate())}`;
}

/** The last moment of a day of the reader's. @param {string} day of a date field @returns {string | null} */
export function endOfDay(day) {
  return day ? new Date(`${day}T23:59:59.999`).toISOString() : null;
}

/** @param {string} iso @returns {string} heading of a list: Today, Yesterday, ... */
export function dayGroup(iso) {
  const days = Math.round((startOfDay(new Date()) - startOfDay(new Date(iso))) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "Last 7 days";
  if (days < 30) return "Last 30 days";
  return "Earlier";
}

/** @param {number} ms */
export function duration(ms) {
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${number(Math.round(ms / 1000))} s`;
}

/** Code points, as the server counts characters. @param {string} text */
export function characters(text) {
  let count = text.length;
  for (let index = 0; index < text.length - 1; index += 1) {
    if (/** @type {number} */ (text.codePointAt(index)) > 0xffff) {
      count -= 1;
      index += 1;
    }
  }
  return count;
}

const REASONS = {
  max_messages: "beyond the number of messages that are sent along",
  max_tokens: "beyond the tokens that are sent along",
  budget: "no room left in the model's context",
  before_forget_line: "before memory was cleared",
  idle: "before a long pause",
  covered_by_summary: "covered by the summary",
  awaiting_summary: "waiting to be summarised",
  other_branch: "on another branch",
  strict_roles: "said before any message of yours, which this model does not take",
  no_answer: "without an answer",
  orphan_tool: "a tool result without its call",
  memory_off: "memory is off",
  share: "beyond the share that preferences may take",
};

/** @param {string} reason */
export const leftOutReason = (reason) =>
  REASONS[/** @type {keyof typeof REASONS} */ (reason)] ?? reason.replaceAll("_", " ");

/**
 * "20 of 46 messages, 3,112 of 28,672 tokens"
 * @param {import("./types.js").ContextFrame} context
 */
export function contextLine(context) {
  const left = Object.values(context.left_out).reduce((sum, count) => sum + count, 0);
  const all = context.of ?? context.window.messages + left;
  return (
    `${number(context.window.messages)} of ${counted(all, "message")}, ` +
    `${number(context.tokens)} of ${counted(context.budget, "token")}`
  );
}
