"""What stands at the head of the current input: preferences, and passages, as far as there is room.

Both stay out of the history, so that the beginning of the next request is the same as of this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory.blocks import (
    FAILED,
    FOUND,
    NO_ROOM,
    NOTHING_MATCHED,
    PreferenceText,
    preference_block,
    preference_line,
    reference_block,
    reference_line,
)
from memory.left_out import BUDGET
from memory.parts import Part, Scale, with_content
from memory.references import Passage, References
from memory.tokens import count_text

SHARE = "share"


def within_share(
    preferences: Sequence[PreferenceText], share: int | None, encoding: str
) -> tuple[list[PreferenceText], list[PreferenceText]]:
    """The best preferences whose block costs at most `share` tokens, and the others.

    One that is too large for what is left of the share does not keep smaller ones out.
    """
    if share is None:
        return list(preferences), []
    kept: list[PreferenceText] = []
    others: list[PreferenceText] = []
    room = share - count_text(preference_block(()), encoding)
    for each in preferences:
        cost = count_text(preference_line(each), encoding)
        (kept if cost <= room else others).append(each)
        room -= cost if cost <= room else 0
    return kept, others


def with_preferences(
    plain: Part, preferences: Sequence[PreferenceText], others: int, scale: Scale
) -> tuple[list[PreferenceText], Part]:
    """The best preferences for which there is room, and the input with them at its head."""
    chosen = _best_that_fit(preferences, others + plain.tokens, scale)
    while chosen:
        part = _augmented(plain, chosen, scale)
        if scale.fits(others + part.tokens):
            return chosen, part
        chosen = chosen[:-1]
    return [], plain


def _best_that_fit(
    preferences: Sequence[PreferenceText], others: int, scale: Scale
) -> list[PreferenceText]:
    total = others + count_text(preference_block(()), scale.encoding)
    for position, each in enumerate(preferences):
        total += count_text(preference_line(each), scale.encoding)
        if not scale.fits(total):
            return list(preferences[:position])
    return list(preferences)


def _augmented(plain: Part, chosen: Sequence[PreferenceText], scale: Scale) -> Part:
    content = preference_block(chosen) + plain.sent.content
    return with_content(plain, content, scale, preferences=[each.id for each in chosen])


# --- Passages -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """The input with its passages, and what the manifest says of them."""

    part: Part
    sent: tuple[Passage, ...] = ()
    state: str | None = None
    """ "found", "nothing_matched", "no_room" or "failed"; None: there was nothing to search in."""

    def figures(self, references: References, scale: Scale) -> dict[str, Any]:
        lines = [_line(each, scale) for each in references.passages]
        sent, left_out = lines[: len(self.sent)], lines[len(self.sent) :]
        figures: dict[str, Any] = {
            "evidence": self.state,
            "references": sent,
            "references_left_out": [{**each, "reason": BUDGET} for each in left_out],
        }
        if references.failed:
            figures["references_failed"] = list(references.failed)
        return figures


def with_references(plain: Part, references: References, others: int, scale: Scale) -> Evidence:
    """The best passages for which there is room beside `others`, or the word that there are none.

    Even that word is left out where there is no room for it; the manifest has it then.
    """
    passages = list(_that_fit(references.passages, others + plain.tokens, scale))
    while passages:
        part = _with_block(plain, FOUND, passages, scale)
        if scale.fits(others + part.tokens):
            return Evidence(part, tuple(passages), FOUND)
        passages.pop()
    state = _without_passages(references)
    if state is None:
        return Evidence(plain)
    part = _with_block(plain, state, (), scale)
    return Evidence(part if scale.fits(others + part.tokens) else plain, (), state)


def _without_passages(references: References) -> str | None:
    if references.passages:
        return NO_ROOM
    if references.failed:
        return FAILED
    return NOTHING_MATCHED if references.was_searched else None


def _that_fit(passages: Sequence[Passage], others: int, scale: Scale) -> Sequence[Passage]:
    total = others + count_text(reference_block(FOUND), scale.encoding)
    for position, each in enumerate(passages):
        total += count_text(reference_line(each), scale.encoding)
        if not scale.fits(total):
            return passages[:position]
    return passages


def _with_block(plain: Part, state: str, passages: Sequence[Passage], scale: Scale) -> Part:
    content = reference_block(state, passages) + plain.sent.content
    return with_content(plain, content, scale, references=[each.id for each in passages])


def _line(passage: Passage, scale: Scale) -> dict[str, Any]:
    return {
        "id": passage.id,
        "source": passage.source,
        "rank": passage.rank,
        "tokens": count_text(reference_line(passage), scale.encoding),
    }
