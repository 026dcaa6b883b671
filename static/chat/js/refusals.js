/** Why an order was refused, in the writer's words. */

import { number } from "./format.js";

/** @param {import("./types.js").Frame} frame an `error` @returns {string} */
export function refusalWords(frame) {
  if (frame.code === "input_too_long" && frame.tokens) return tooManyTokens(frame.tokens, frame.limit);
  return frame.detail;
}

/** @param {number} tokens @param {number} limit */
function tooManyTokens(tokens, limit) {
  const share = Math.ceil((1 - limit / tokens) * 100);
  return (
    `This is too long for the model: ${number(tokens)} tokens, and ${number(limit)} fit. A token is about four ` +
    `letters of English, or one Chinese character. Shorten the text by ${number(share)}%, or send it in parts.`
  );
}
