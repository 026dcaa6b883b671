/** How a turn ended, in a sentence, where there is something to say. */

import { characters, counted } from "./format.js";

/**
 * @param {import("./types.js").Turn} turn
 * @param {string | null} answer its text, or null for the input that has none
 * @returns {{text: string, tone: string, canRetry: boolean, canContinue: boolean} | null}
 */
export function turnNote(turn, answer) {
  const isAnswer = answer !== null;
  if (turn.status === "stopped") {
    const where = answer
      ? `after ${counted(characters(answer), "character")}`
      : "before anything was written";
    return { text: `Stopped by you ${where}.`, tone: "plain", canRetry: true, canContinue: Boolean(answer) };
  }
  if (turn.status === "interrupted") {
    const kept = isAnswer ? "What was written is kept." : "Your message is kept.";
    return {
      text: `The server stopped while it was answering. ${kept}`,
      tone: "warn",
      canRetry: true,
      canContinue: Boolean(answer),
    };
  }
  if (turn.status === "failed") {
    const why = turn.error?.detail || "The model gave no answer.";
    return {
      text: `This answer failed: ${why}`,
      tone: "danger",
      canRetry: true,
      canContinue: false,
    };
  }
  if (turn.status === "completed" && isAnswer) {
    const isCut = turn.finish_reason === "length";
    const said = [
      isCut ? "The answer was cut off: it reached the model's limit of length." : "",
      turn.output_schema?.error ?? "",
    ].filter(Boolean);
    if (said.length) return { text: said.join(" "), tone: "warn", canRetry: false, canContinue: isCut };
  }
  return null;
}

/** @param {string} status @param {import("./types.js").TurnError | null} error */
export function spokenEnd(status, error) {
  if (status === "stopped") return "The answer was stopped.";
  if (status === "interrupted") return "The answer was interrupted. You can try again.";
  if (status === "failed") return `The answer failed. ${error?.detail ?? ""}`;
  return "The answer is complete.";
}
