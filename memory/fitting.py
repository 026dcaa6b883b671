"""What of a request has room: given up are passages, preferences, the digest or summary, history.

In this order, as far as it takes; what may not be given up has been charged before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.blocks import PreferenceText
from memory.input_blocks import Evidence, with_preferences, with_references
from memory.opening import Opening, opened
from memory.parts import Part, Scale
from memory.references import References
from memory.tokens import count_text


@dataclass(frozen=True)
class Fitted:
    """The history that is sent, in exchanges, and the input with the blocks before it."""

    history: list[list[Part]]
    given_up: int
    """Exchanges, the oldest, that had no room."""
    input: Part
    preferences: list[PreferenceText]
    evidence: Evidence
    is_opened: bool
    """Whether the summary or digest is in it."""


def fit(
    history: Sequence[Sequence[Part]],
    plain: Part,
    opening: Opening | None,
    preferences: Sequence[PreferenceText],
    references: References,
    fixed: int,
    scale: Scale,
) -> Fitted:
    """As much of everything as fits beside `fixed` tokens; `plain` is the input without blocks."""
    whole = [list(group) for group in history]
    headed = opened(whole, opening, scale)
    others = fixed + _tokens(headed or whole)
    before_input = opening if headed is None else None
    chosen, evidence, final = _with_blocks(
        plain, before_input, preferences, references, others, scale
    )
    is_opened = opening is not None and scale.fits(others + final.tokens)
    if is_opened and headed is not None:
        whole = headed
    elif not is_opened and before_input is not None:
        final = evidence.part
    given_up = _give_up_oldest(whole, fixed + final.tokens, scale)
    return Fitted(whole[given_up:], given_up, final, chosen, evidence, is_opened)


def _with_blocks(
    plain: Part,
    opening: Opening | None,
    preferences: Sequence[PreferenceText],
    references: References,
    others: int,
    scale: Scale,
) -> tuple[list[PreferenceText], Evidence, Part]:
    """The preferences and passages that fit beside `others` and `opening`, and the input with all.

    Where not even `opening` alone fits, the input with it does not either.
    """
    ahead = count_text(opening.block, scale.encoding) if opening else 0
    while True:
        chosen, part = with_preferences(plain, preferences, others + ahead, scale)
        evidence = with_references(part, references, others + ahead, scale)
        final = opening.before(evidence.part, scale) if opening else evidence.part
        if scale.fits(others + final.tokens) or evidence.part is plain:
            return chosen, evidence, final
        ahead += 1  # joining two texts may cost a token or two


def _tokens(history: Sequence[Sequence[Part]]) -> int:
    return sum(part.tokens for group in history for part in group)


def _give_up_oldest(history: Sequence[Sequence[Part]], others: int, scale: Scale) -> int:
    """How many of the oldest exchanges do not fit beside `others`."""
    costs = [sum(part.tokens for part in group) for group in history]
    total = others + sum(costs)
    for given_up, cost in enumerate(costs):
        if scale.fits(total):
            return given_up
        total -= cost
    return len(costs)
