"""`remember` and `forget`: what a person says should hold in every later conversation."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from chat import events
from chat.hops import hop
from chat.retention import forget_preference
from chat.turns.tools import Caller, Result, Tool, ToolFailed
from memory import preferences
from memory.models import PREFERENCE_TEXT_LENGTH, UserPreference
from memory.preferences import ALL, KEY_LENGTH, InvalidPreference, Owner

LISTED = 50
QUOTE_LENGTH = 500  # characters


async def remember(caller: Caller, arguments: Mapping[str, Any]) -> Result:
    row = await hop(_remember, caller, arguments)
    saved = events.preference_told("saved", row)
    return Result(f"Remembered under {row.key!r}: {row.text}", frames=(saved,))


def _remember(caller: Caller, arguments: Mapping[str, Any]) -> UserPreference:
    try:
        return preferences.remember(
            caller.tenant_id,
            caller.user_id,
            _scope(caller, arguments),
            arguments["key"],
            arguments["text"],
            origin=UserPreference.Origin.CHAT,
            source_session=caller.session_id,
            source_seq=caller.input_seq,
            quote=caller.input_text[:QUOTE_LENGTH],
            replaces=arguments.get("replaces"),
        )
    except InvalidPreference as invalid:
        raise ToolFailed(f"This cannot be remembered: {invalid}.") from None


def _scope(caller: Caller, arguments: Mapping[str, Any]) -> str:
    """The assistant's own where it is asked for, and where that is what is said anew: else the
    older one, which counts first, would hide the newer."""
    owner = Owner(caller.tenant_id, caller.user_id, caller.assistant)
    keys = (arguments.get("replaces"), arguments["key"])
    known = (row.scope for key in keys if key for row in preferences.matching(owner, key))
    is_own = arguments.get("only_this_assistant") or caller.assistant in known
    return caller.assistant if is_own else ALL


async def forget(caller: Caller, arguments: Mapping[str, Any]) -> Result:
    forgotten = await hop(_forget, caller, arguments["key"])
    frames = tuple(events.preference_forgotten(each) for each in forgotten)
    return Result(f"Forgotten: {arguments['key']}", frames=frames)


def _forget(caller: Caller, key: str) -> list[int]:
    """Forget what is remembered under `key`, for this assistant and for all."""
    owner = Owner(caller.tenant_id, caller.user_id, caller.assistant)
    rows = preferences.matching(owner, key)
    if not rows:
        known = sorted({each.key for each in preferences.active_for(owner)})[:LISTED]
        raise ToolFailed(
            f"Nothing is remembered under {key!r}. Known keys: {', '.join(known) or 'none'}."
        )
    for each in rows:
        with suppress(UserPreference.DoesNotExist):  # somebody else has just deleted it
            forget_preference(caller.tenant_id, caller.user_id, each.pk)
    return [each.pk for each in rows]


REMEMBER = Tool(
    name="remember",
    description=(
        "Keep something that this person asked you to remember, or a lasting preference that they"
        " stated, for every later conversation. Never for what matters now only, and never for"
        " passwords, card numbers or other secrets."
    ),
    parameters={
        "type": "object",
        "properties": {
            "key": {
                "type": "string",
                "minLength": 1,
                "maxLength": KEY_LENGTH,
                "description": (
                    "What it is about, in one or two words, such as `code language`. The key of"
                    " something known, when this replaces it."
                ),
            },
            "text": {
                "type": "string",
                "minLength": 1,
                "maxLength": PREFERENCE_TEXT_LENGTH,
                "description": "What to remember, as a sentence that stands by itself.",
            },
            "replaces": {
                "type": ["string", "null"],
                "maxLength": KEY_LENGTH,
                "description": "The key of what is known and no longer holds, if there is one.",
            },
            "only_this_assistant": {"type": "boolean"},
        },
        "required": ["key", "text"],
        "additionalProperties": False,
    },
    run=remember,
    uses_memory=True,
)

FORGET = Tool(
    name="forget",
    description="Forget something that was remembered of this person, when they ask for it.",
    parameters={
        "type": "object",
        "properties": {
            "key": {
                "type": "string",
                "minLength": 1,
                "maxLength": KEY_LENGTH,
                "description": "The key, as it stands in the saved preferences.",
            }
        },
        "required": ["key"],
        "additionalProperties": False,
    },
    run=forget,
    uses_memory=True,
)
