"""The request of a turn: what memory gives, assembled, recorded, ready to send.

Whatever writes here runs inside a transaction that has claimed the session's row.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import transaction

from chat import events, leases, records, usage
from chat.models import Assistant, ChatMessage, ChatSession, ChatTurn, ModelEndpoint
from chat.turns import derived, images, output_schema, policies, references, still_there, tools
from chat.turns.history import SessionHistory, history_message
from chat.turns.inputs import Input
from chat.turns.orders import NOTHING_SPENT, Begun, Refused, Spent
from memory import context, recall
from memory.blocks import DigestText, PreferenceText, SummaryText
from memory.context import Assembled, HistoryMessage, Window
from memory.recall import MemoryPolicy, SessionState
from memory.references import References
from memory.tokens import count_definitions

LEAST_WINDOW = 256  # tokens
BELIEVED_PART = 4  # a named limit below a quarter of the configured one is not believed
GUESS = 0.85  # of what was refused, where an endpoint does not say how much it takes


@dataclass(frozen=True)
class TurnMemory:
    """What memory gave to a turn, and what it was read from."""

    state: SessionState
    policy: MemoryPolicy
    window: Window
    current: HistoryMessage
    preferences: tuple[PreferenceText, ...]
    count: int  # messages before the input on the branch
    references: References
    summary: SummaryText | None = None
    digest: DigestText | None = None
    awaiting: tuple[HistoryMessage, ...] = ()  # older than the window, not summarised yet
    running: tuple[HistoryMessage, ...] = ()  # of this turn: calls of tools and their results
    wants_title: bool = False
    sent_preferences: tuple[int, ...] = ()  # that the newest request held

    @property
    def last_id(self) -> uuid.UUID:
        """The newest stored message of the turn, which its answer follows."""
        return uuid.UUID((self.running or (self.current,))[-1].id)

    @property
    def last_seq(self) -> int:
        return (self.running or (self.current,))[-1].seq


def prepare(
    chat_session: ChatSession, turn: ChatTurn, placed: Input, passages: References
) -> Begun:
    """Read memory, assemble the request and record it; `Refused` when it cannot fit."""
    memory = _recall(chat_session, placed, passages)
    offered = tools.offered(chat_session, memory_enabled=memory.policy.enabled)
    begun = _write(chat_session.assistant, turn, memory, _first(chat_session, turn, offered))
    accepted = events.accepted(turn, placed.message, placed.notes)
    return replace(begun, frames=(accepted, *begun.frames, *placed.frames))


def what_if(
    turn: ChatTurn,
    *,
    assistant: Assistant | None = None,
    lines: tuple[int, int] | None = None,
    **changes: Any,
) -> Assembled:
    """What the turn would send now under another memory policy; nothing is written or called.

    `changes` are fields of `MemoryPolicy`; `assistant` takes the place of the session's, `lines`
    that of its forget line and its pause line. Prompt, endpoint, preferences and passages are
    today's. `Refused` for a turn whose input is not on the chosen branch.
    """
    chat_session = ChatSession.objects.select_related("assistant__endpoint").get(
        pk=turn.chat_session_id
    )
    if not turn.input.is_on_path:
        raise Refused(
            "other_branch",
            f"Turn {turn.number} answers a message of another branch than the chosen one, and only"
            " the chosen one can be assembled anew.",
        )
    if assistant is not None:
        chat_session.assistant = assistant
    if lines is not None:
        chat_session.memory_starts_after, chat_session.idle_line = lines
    turn.chat_session = chat_session
    branch = ChatMessage.objects.filter(chat_session=chat_session, is_on_path=True)
    before = branch.filter(seq__lt=turn.input.seq).order_by("-seq").values_list("seq", flat=True)
    placed = Input(turn.input, previous_seq=before.first() or 0, count=before.count())
    assistant = chat_session.assistant
    passages = references.for_input(chat_session, turn.input)
    recalled = _recall(chat_session, placed, passages, changes)
    memory, _ = _with_images(assistant, chat_session.pk, recalled)
    offered = tools.offered(chat_session, memory_enabled=memory.policy.enabled)
    return _assemble(assistant, memory, offered)


def shrink(begun: Begun, context_limit: int | None) -> Begun:
    """The same turn in fewer tokens, after its endpoint refused the first request as too long.

    `context_limit` is what the endpoint said that it takes, in tokens.
    """
    with transaction.atomic():
        leases.hold(begun.session_id, begun.turn_id)
        turn = ChatTurn.objects.select_related(
            "chat_session__assistant__endpoint",
        ).get(pk=begun.turn_id)
        assistant = turn.chat_session.assistant
        _lower_limit(assistant.endpoint, begun, context_limit)
        memory = still_there.refreshed(begun.memory)
        return _write(assistant, turn, memory, replace(begun, was_shrunk=True))


def follow(begun: Begun) -> Begun:
    """The next request of a turn, with what its tools gave; `Refused` when that is too long."""
    with transaction.atomic():
        leases.hold(begun.session_id, begun.turn_id)
        turn = ChatTurn.objects.select_related(
            "chat_session__assistant__endpoint",
        ).get(pk=begun.turn_id)
        memory = still_there.refreshed(begun.memory)
        return _write(turn.chat_session.assistant, turn, memory, begun)


@dataclass(frozen=True)
class _Before:
    """What a turn's first request follows: nothing."""

    caller: tools.Caller
    tools: tuple[tools.Tool, ...]
    attempt: int = 0
    rounds: int = 0
    was_shrunk: bool = False
    spent: Spent = NOTHING_SPENT


def _first(chat_session: ChatSession, turn: ChatTurn, offered: tuple[tools.Tool, ...]) -> _Before:
    caller = tools.Caller(
        session_id=chat_session.pk,
        tenant_id=chat_session.tenant_id,
        user_id=chat_session.user_id,
        assistant=chat_session.assistant.slug,
        input_seq=turn.input.seq,
        input_text=turn.input.content or "",
    )
    return _Before(caller, offered)


def _lower_limit(endpoint: ModelEndpoint, begun: Begun, context_limit: int | None) -> None:
    """Let this turn's second request keep to a lower limit; remember it where it is believable.

    One turn of one person must not take the memory of everybody else at this endpoint, so a limit
    is kept only if the endpoint named it, the refused request was really over it, and it is not
    grossly below what is configured.
    """
    asked = begun.tokens + policies.output_tokens(endpoint)
    is_believable = (
        context_limit is not None
        and context_limit >= max(LEAST_WINDOW, endpoint.context_window // BELIEVED_PART)
        and asked > context_limit
    )
    limit = context_limit if is_believable and context_limit else int(asked * GUESS)
    endpoint.learned_context_window = max(LEAST_WINDOW, min(limit, endpoint.context_window))
    if is_believable:
        endpoint.save(update_fields=["learned_context_window"])


def _write(
    assistant: Assistant, turn: ChatTurn, memory: TurnMemory, before: Begun | _Before
) -> Begun:
    """Assemble and record the request that follows `before` in a turn."""
    memory = still_there.held(memory, before.caller)
    sent, urls = _with_images(assistant, turn.chat_session_id, memory)
    assembled = _assemble(assistant, sent, before.tools)
    manifest = {**assembled.manifest, "of": memory.count}
    parameters = policies.request_parameters(assistant)
    parameters |= policies.tool_parameters(before.tools, may_call=not _is_last(before))
    is_temporary = turn.chat_session.is_temporary
    record, request = records.write(
        turn,
        replace(assembled, manifest=manifest),
        parameters,
        before.attempt + 1,
        keeps_text=not is_temporary,
        images=urls,
    )
    derived.note(record)
    return Begun(
        turn_id=turn.pk,
        day=usage.day_of(turn.started_at),
        session_id=turn.chat_session_id,
        record_id=record.pk,
        spec=policies.endpoint_spec(assistant.endpoint),
        request=request,
        attempt=before.attempt + 1,
        tokens=assembled.tokens,
        is_temporary=is_temporary,
        memory=replace(memory, sent_preferences=_sent_preferences(manifest)),
        caller=before.caller,
        tools=before.tools,
        rounds=before.rounds,
        was_shrunk=before.was_shrunk,
        spent=before.spent,
        frames=(events.turn_context(turn, manifest, memory.preferences),),
        output_schema=assistant.output_schema,
    )


def _is_last(before: Begun | _Before) -> bool:
    """Whether a turn has used tools so often that its next answer must do without."""
    return before.rounds > settings.CHAT_TOOL_ROUNDS


def _sent_preferences(manifest: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(each["id"] for each in manifest["preferences"])


def _with_images(
    assistant: Assistant, session_id: uuid.UUID, memory: TurnMemory
) -> tuple[TurnMemory, dict[str, str]]:
    """What memory gave, as far as its images can be sent, and those images by attachment."""
    sees = assistant.endpoint.supports_vision
    older = len(memory.awaiting)
    whole = replace(memory.window, messages=(*memory.awaiting, *memory.window.messages))
    shown, urls = images.for_request(session_id, whole, memory.current, sees=sees)
    window = replace(shown, messages=shown.messages[older:])
    return replace(memory, window=window, awaiting=shown.messages[:older]), urls


def _assemble(
    assistant: Assistant, memory: TurnMemory, offered: Sequence[tools.Tool] = ()
) -> Assembled:
    endpoint = assistant.endpoint
    asked = output_schema.asked_of(assistant)
    definitions = count_definitions([each.definition for each in offered], endpoint.encoding)
    try:
        assembled = context.assemble(
            prompt=asked.prompt,
            window=memory.window,
            current=memory.current,
            running=memory.running,
            summary=memory.summary,
            digest=memory.digest,
            awaiting=memory.awaiting,
            preferences=memory.preferences,
            preference_tokens=settings.CHAT_PREFERENCE_TOKENS,
            references=memory.references,
            budget=policies.request_budget(endpoint),
            encoding=endpoint.encoding,
            correction=endpoint.token_correction,
            beside=asked.beside + definitions,
            strict_roles=endpoint.strict_roles,
        )
    except (context.InputTooLong, context.PromptTooLong) as too_long:
        raise Refused(
            too_long.code, str(too_long), tokens=too_long.tokens, limit=too_long.limit
        ) from None
    figures: dict[str, Any] = dict(asked.figures)
    if offered:
        figures["tools"] = {"names": [each.name for each in offered], "tokens": definitions}
    return replace(assembled, manifest={**assembled.manifest, **figures})


def _recall(
    chat_session: ChatSession,
    placed: Input,
    passages: References,
    changes: Mapping[str, Any] | None = None,
) -> TurnMemory:
    state = SessionState(
        id=chat_session.pk,
        memory_epoch=chat_session.memory_epoch,
        forget_line=chat_session.memory_starts_after,
        newest_seq=placed.previous_seq,
        idle_line=chat_session.idle_line,
        last_seq=chat_session.next_seq - 1 if changes is None else 0,
    )
    policy = replace(policies.memory_policy(chat_session), **(changes or {}))
    reader = SessionHistory(chat_session.pk, after=state.floor, before=placed.message.seq)
    current = history_message(placed.message)
    recalled = recall.recall(
        reader,
        state,
        policies.owner_of(chat_session),
        policy,
        current.message.content or "",
        room=policies.request_budget(chat_session.assistant.endpoint).limit,
    )
    return TurnMemory(
        state=state,
        policy=policy,
        window=recalled.window,
        current=current,
        preferences=recalled.preferences,
        summary=recalled.summary,
        digest=recalled.digest,
        awaiting=recalled.awaiting,
        count=placed.count,
        references=passages,
        wants_title=chat_session.title_source == ChatSession.TitleSource.AUTO,
    )
