"""Every reason for which something is not in a request: in words, and which settings decide it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROOM = ("context_window", "max_output_tokens", "CHAT_CONTEXT_MARGIN_PERCENT", "token_correction")

# What the manifest of a request does not say, because nothing was left out.
NOT_YET_SAID = "not_yet_said"
DELETED = "deleted"
NOT_RECORDED = "not_recorded"


@dataclass(frozen=True)
class Reason:
    """`short` ends the sentence "left out: …"; `settings` are names of `inspection.deciding`."""

    short: str
    why: str
    settings: tuple[str, ...] = ()


OF_MESSAGES = {
    "max_messages": Reason(
        "beyond the limit of messages",
        "The window holds so many messages of the history and no more. It goes back by whole"
        " exchanges, and this lies before it.",
        ("max_messages", "stride"),
    ),
    "max_tokens": Reason(
        "beyond the limit of tokens",
        "The window holds so many tokens of the history and no more. It goes back by whole"
        " exchanges, and this lies before it.",
        ("max_tokens", "stride"),
    ),
    "budget": Reason(
        "no room in the model's context",
        "The request was full. The assistant's prompt, tools and the current input are always"
        " sent; of the rest passages give way first, then preferences, the summary, and at last the"
        " oldest exchanges.",
        ROOM,
    ),
    "before_forget_line": Reason(
        "before the forget line",
        "The memory of the session was cleared after this was said. It stays in the transcript and"
        " is never sent again.",
        ("memory_starts_after",),
    ),
    "idle": Reason(
        "before a long pause",
        "The session was left alone for so many days that it went on with its last exchanges only.",
        ("CHAT_MEMORY_IDLE_DAYS", "idle_line"),
    ),
    "covered_by_summary": Reason(
        "covered by the summary",
        "The conversation's summary stands for this: the model was given the summary's words"
        " instead, and those may not hold every detail.",
        ("summarize",),
    ),
    "awaiting_summary": Reason(
        "waiting for a summary",
        "The limits put this out of the window and no summary stands for it yet. Until one does it"
        " is sent as long as there is room, and there was none.",
        ("summarize", *ROOM),
    ),
    "other_branch": Reason(
        "on another branch",
        "This belongs to a branch of the conversation that was not the one being answered: an"
        " earlier wording or another answer.",
    ),
    "no_answer": Reason(
        "a turn without an answer",
        "Its turn has no answer with any text (it failed, or was stopped before the first word), so"
        " the whole exchange is left out.",
    ),
    "orphan_tool": Reason(
        "a tool call or result without its other half",
        "A call of a tool and its result travel together or not at all.",
    ),
    "memory_off": Reason(
        "memory is off",
        "With memory off a request holds the prompt and the current input and nothing else.",
        ("enabled",),
    ),
    "strict_roles": Reason(
        "said by the assistant before any user, which the endpoint does not take",
        "The endpoint wants a user's message first, and nothing of a user stands before this.",
        ("strict_roles",),
    ),
    "system_message": Reason(
        "a system message in the history",
        "Only the assistant's own prompt is sent as a system message.",
        ("system_prompt",),
    ),
    NOT_YET_SAID: Reason(
        "not yet said",
        "It was said after this turn's input, so the request could not hold it.",
    ),
    DELETED: Reason(
        "deleted",
        "No message of the session has this number any more: it was deleted with its answers.",
    ),
    NOT_RECORDED: Reason(
        "not recorded",
        "The request's record says nothing of this message.",
    ),
}

OF_PREFERENCES = {
    "share": Reason(
        "beyond the share of preferences",
        "Preferences may take so many tokens of a request; others fitted this message better.",
        ("CHAT_PREFERENCE_TOKENS",),
    ),
    "budget": Reason(
        "no room in the model's context",
        "The request was full; preferences give way before the history does.",
        ROOM,
    ),
}

OF_OPENING = {
    "budget": Reason(
        "no room in the model's context",
        "The request was full; it gives way before the oldest exchanges do.",
        ROOM,
    ),
}


def of_message(reason: str) -> Reason:
    return OF_MESSAGES.get(reason) or Reason(reason, "")


def of_preference(reason: str) -> Reason:
    return OF_PREFERENCES.get(reason) or Reason(reason, "")


def limit_of(reason: str, manifest: Mapping[str, Any]) -> str:
    """The number that decided, as the request's own manifest has it; "" where none did."""
    policy = manifest.get("policy") or {}
    if reason in ("max_messages", "max_tokens"):
        number, unit = policy.get(reason), reason.removeprefix("max_")
        return f"{number:,} {unit}" if isinstance(number, int) else ""
    if reason in ("budget", "awaiting_summary"):
        budget = manifest.get("budget")
        return f"{budget:,} tokens" if isinstance(budget, int) else ""
    summary = manifest.get("summary")
    if reason == "covered_by_summary" and summary:
        through = f"{summary['covers_from']} to {summary['covers_through']}"
        return f"version {summary['version']} covers messages {through}"
    return ""
