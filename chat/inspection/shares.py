"""What each part of a request costs, held against what it may: out of the manifest alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PROMPT, SCHEMA, TOOLS = "prompt", "schema", "tools"
SUMMARY, DIGEST, HISTORY = "summary", "digest", "history"
PREFERENCES, PASSAGES, INPUT, RUNNING = "preferences", "passages", "input", "running"

LABELS = {
    PROMPT: "Prompt of the assistant",
    SCHEMA: "Output schema",
    TOOLS: "Definitions of tools",
    SUMMARY: "Summary of the conversation",
    DIGEST: "Digest of earlier sessions",
    HISTORY: "History",
    PREFERENCES: "Preferences",
    PASSAGES: "Passages of documents",
    INPUT: "Current input",
    RUNNING: "The turn so far",
}


@dataclass(frozen=True)
class Share:
    """One part of a request, in tokens by our count."""

    kind: str
    tokens: int
    limit: int
    """What this part may hold at most."""
    limited_by: str = ""
    """The setting behind `limit`; "": the request's own budget."""
    note: str = ""
    start: int = 0
    """Tokens of the parts before it."""

    @property
    def label(self) -> str:
        return LABELS[self.kind]


@dataclass(frozen=True)
class Shares:
    parts: tuple[Share, ...]
    counted: int
    budget: int
    """0: the manifest does not say."""

    @property
    def free(self) -> int:
        return max(self.budget - self.counted, 0)


def of(
    manifest: Mapping[str, Any], *, input_tokens: int | None, preference_tokens: int | None
) -> Shares:
    """The shares of a request.

    `input_tokens` is what the input costs without any block before it (None: not known, and the
    blocks are then counted with it), `preference_tokens` the share of preferences today.
    """
    budget = _number(manifest.get("budget"))
    costs = _costs(manifest, input_tokens)
    parts, start = [], 0
    for kind in LABELS:
        if kind not in costs:
            continue
        limit, limited_by = _limit(kind, manifest, budget, preference_tokens)
        note = _note(kind, manifest, input_tokens)
        parts.append(Share(kind, costs[kind], limit, limited_by, note, start))
        start += costs[kind]
    counted = _number(manifest.get("counted")) or _number(manifest.get("tokens")) or start
    return Shares(tuple(parts), counted, budget)


def lines_of(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The manifest's line for each message of the request."""
    lines = manifest.get("parts") or []
    return [each for each in lines if isinstance(each, Mapping)]


def _costs(manifest: Mapping[str, Any], input_tokens: int | None) -> dict[str, int]:
    """By kind, what there is of it."""
    costs: dict[str, int] = {}
    lines = lines_of(manifest)
    for line in lines:
        kind = line.get("kind")
        if kind in (PROMPT, HISTORY, INPUT, RUNNING):
            costs[kind] = costs.get(kind, 0) + _number(line.get("tokens"))
    _take_opening(costs, manifest, lines)
    _take_blocks(costs, manifest, input_tokens)
    if schema := manifest.get("output_schema"):
        costs[SCHEMA] = _number(schema["tokens"])
        if schema["sent_as"] != "response_format" and PROMPT in costs:
            costs[PROMPT] = max(costs[PROMPT] - costs[SCHEMA], 0)
    if tools := manifest.get("tools"):
        costs[TOOLS] = _number(tools["tokens"])
    return costs


def _take_opening(
    costs: dict[str, int], manifest: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
) -> None:
    """The summary or digest stands at the head of a message of the history, or of the input."""
    for kind in (SUMMARY, DIGEST):
        opening = manifest.get(kind)
        holder = next((line.get("kind") for line in lines if line.get(kind)), None)
        if opening and holder in costs:
            costs[kind] = min(_number(opening["tokens"]), costs[holder])
            costs[holder] -= costs[kind]


def _take_blocks(
    costs: dict[str, int], manifest: Mapping[str, Any], input_tokens: int | None
) -> None:
    """Preferences and passages stand at the head of the input."""
    if INPUT not in costs or input_tokens is None:
        return
    blocks = max(costs[INPUT] - input_tokens, 0)
    passages = manifest.get("references") or ()
    has_preferences = bool(manifest.get("preferences"))
    if passages or manifest.get("evidence"):
        listed = sum(_number(each.get("tokens")) for each in passages)
        costs[PASSAGES] = min(listed, blocks) if has_preferences else blocks
    if has_preferences:
        costs[PREFERENCES] = blocks - costs.get(PASSAGES, 0)
    if has_preferences or PASSAGES in costs:
        costs[INPUT] -= blocks


def _limit(
    kind: str, manifest: Mapping[str, Any], budget: int, preference_tokens: int | None
) -> tuple[int, str]:
    policy = manifest.get("policy") or {}
    if kind == HISTORY and isinstance(policy.get("max_tokens"), int):
        return policy["max_tokens"], "max_tokens"
    if kind == PREFERENCES and preference_tokens is not None:
        return preference_tokens, "CHAT_PREFERENCE_TOKENS"
    return budget, ""


def _note(kind: str, manifest: Mapping[str, Any], input_tokens: int | None) -> str:
    if kind == HISTORY:
        window, policy = manifest.get("window") or {}, manifest.get("policy") or {}
        sent, most = window.get("messages"), policy.get("max_messages")
        return f"{sent} of at most {most} messages" if sent is not None and most else ""
    if kind == SUMMARY:
        summary = manifest[SUMMARY]
        return (
            f"version {summary['version']}, messages {summary['covers_from']} to"
            f" {summary['covers_through']}"
        )
    if kind == DIGEST:
        return _count(manifest[DIGEST].get("sources", ()), "session", "sessions")
    if kind == PREFERENCES:
        return _count(manifest["preferences"], "preference", "preferences")
    if kind == PASSAGES:
        return _count(manifest.get("references") or (), "passage", "passages")
    if kind == TOOLS:
        return ", ".join(manifest["tools"]["names"])
    if kind == INPUT and input_tokens is None and manifest.get("preferences"):
        return "with the preferences before it"
    return ""


def _count(rows: Sequence[Any], one: str, many: str) -> str:
    return f"{len(rows)} {one if len(rows) == 1 else many}"


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
