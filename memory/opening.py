"""What stands for the past at the head of a request: the session's summary, else the user's digest.

It is a block at the head of the first user message, whether that is one of the history or the
input, so that it stays in its place from one request to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.blocks import DigestText, SummaryText, digest_block, summary_block
from memory.left_out import BUDGET
from memory.parts import Part, Scale, with_content
from memory.tokens import count_text

SUMMARY, DIGEST = "summary", "digest"


@dataclass(frozen=True)
class Opening:
    """The block that opens a request, and what the manifest says of it."""

    kind: str
    """ "summary" or "digest"."""
    id: int
    block: str
    figures: Mapping[str, Any]

    def before(self, part: Part, scale: Scale) -> Part:
        return with_content(part, self.block + part.sent.content, scale, **{self.kind: self.id})


def opening_of(summary: SummaryText | None, digest: DigestText | None) -> Opening | None:
    figures: dict[str, Any]
    if summary is not None:
        figures = {
            "id": summary.id,
            "version": summary.version,
            "covers_from": summary.covers_from,
            "covers_through": summary.covers_through,
        }
        return Opening(SUMMARY, summary.id, summary_block(summary), figures)
    if digest is not None:
        figures = {"id": digest.id, "sources": list(digest.sources)}
        return Opening(DIGEST, digest.id, digest_block(digest), figures)
    return None


def opened(
    history: Sequence[Sequence[Part]], opening: Opening | None, scale: Scale
) -> list[list[Part]] | None:
    """`history` with the block at the head of its first user message; None where it has none."""
    if opening is None:
        return None
    for at, group in enumerate(history):
        for position, part in enumerate(group):
            if part.sent.role == "user":
                headed = [*group[:position], opening.before(part, scale), *group[position + 1 :]]
                return [*map(list, history[:at]), headed, *map(list, history[at + 1 :])]
    return None


def opening_figures(opening: Opening | None, is_sent: bool, scale: Scale) -> dict[str, Any]:
    """What the manifest says of summary and digest."""
    found: dict[str, Any] = {SUMMARY: None, DIGEST: None}
    if opening is not None and is_sent:
        tokens = count_text(opening.block, scale.encoding)
        found[opening.kind] = {**opening.figures, "tokens": tokens}
    elif opening is not None:
        found[f"{opening.kind}_left_out"] = BUDGET
    return found
