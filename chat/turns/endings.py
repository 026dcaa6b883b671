"""The writes of a running turn: partial text, and its end. Each is one transaction.

Every one of them begins by claiming the session's row under the turn's id; `leases.Lost` means
that the turn was taken over or the session deleted, and that nothing was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from chat import dues, leases, tallies, temporary, usage
from chat.models import ChatMessage, ChatSession, ChatTurn, ContextRecord, ModelEndpoint
from chat.search import messages
from chat.turns import output_schema
from chat.turns.history import history_message
from chat.turns.orders import Begun, Outcome, Spent
from chat.turns.requests import TurnMemory
from memory import preferences, recall, tokens
from memory.messages import Message

LEAST_TO_LEARN_FROM = 50  # tokens; below that the overhead of a few messages decides
QUOTING = {"auth_failed", "bad_request", "context_length", "provider_error", "rate_limited"}
"""Errors whose text is the endpoint's own."""
UNKEPT = "The endpoint said why; its words are not kept in a temporary conversation."
WORTH_WRITING = 0.005  # change of a correction


@dataclass(frozen=True)
class Wish:
    """What somebody asked of the running turn through the database."""

    stop: bool
    seen: int | None


def flush(begun: Begun, text: str) -> Wish:
    """Renew the lease, store the text so far, and read whether somebody asked to stop."""
    with transaction.atomic():
        leases.hold(begun.session_id, begun.turn_id)
        if text:
            _store_answer(begun, text, is_partial=True, count=False)
        turn = ChatTurn.objects.filter(pk=begun.turn_id)
        wish = turn.values_list("stop_requested", "stop_seen").first()
    return Wish(*wish) if wish else Wish(stop=True, seen=None)


def finish(begun: Begun, outcome: Outcome) -> None:
    """Store the answer, the usage and the end of the turn, release the lease, save the window."""
    checked = _checked(begun, outcome)
    with transaction.atomic():
        used = F("token_count") + outcome.spent.total
        leases.release(begun.session_id, begun.turn_id, token_count=used)
        is_partial = outcome.status != ChatTurn.Status.COMPLETED
        if outcome.text:
            _save_window(
                begun, _store_answer(begun, outcome.text, is_partial=is_partial, count=True)
            )
        else:
            _drop_answer(begun)
        messages.index_answers(begun.session_id, begun.turn_id)
        _end_turn(begun, outcome, checked)
        if outcome.status in tallies.TURNS.values():
            tallies.recount(begun.session_id)
        usage.mark(begun.day)
        _note_use(begun)
        if outcome.status == ChatTurn.Status.COMPLETED:
            _mark_due(begun)
    _learn_correction(begun, outcome)


def _store_answer(begun: Begun, text: str, *, is_partial: bool, count: bool) -> ChatMessage:
    """Write the answer's row: made at the first write, replaced at the later ones."""
    answer = answer_row(begun) or _new_answer(begun)
    answer.content = "" if begun.is_temporary else text
    answer.is_partial = is_partial
    if count:
        encoding = begun.memory.policy.encoding
        answer.token_encoding = encoding
        answer.token_count = tokens.counter_for(encoding)(Message.assistant(text))
    answer.save()
    if begun.is_temporary:
        temporary.keep(begun.session_id, answer.pk, text)
        answer.content = text  # for whoever asked; it is not saved
    return answer


def answer_row(begun: Begun) -> ChatMessage | None:
    """The row of the answer to the newest request of a turn, once a flush has made it."""
    answers = ChatMessage.objects.filter(
        chat_session_id=begun.session_id, turn_id=begun.turn_id, role=ChatMessage.Role.ASSISTANT
    )
    return answers.filter(seq__gt=begun.memory.last_seq).first()


def _new_answer(begun: Begun) -> ChatMessage:
    answer = ChatMessage(
        chat_session_id=begun.session_id,
        turn_id=begun.turn_id,
        parent_id=begun.memory.last_id,
        role=ChatMessage.Role.ASSISTANT,
    )
    row = ChatSession.objects.filter(pk=begun.session_id)
    answer.seq = row.values_list("next_seq", flat=True).get()
    answer.content = ""
    answer.save(force_insert=True)
    row.update(
        next_seq=F("next_seq") + 1,
        message_count=F("message_count") + 1,
        path_count=F("path_count") + 1,
        head=answer,
    )
    return answer


def _drop_answer(begun: Begun) -> None:
    """Nothing of the answer was seen: the row that a flush made goes again."""
    answer = answer_row(begun)
    if answer is None:
        return
    ChatSession.objects.filter(pk=begun.session_id).update(
        head=begun.memory.last_id,
        message_count=F("message_count") - 1,
        path_count=F("path_count") - 1,
    )
    answer.delete()


def _checked(begun: Begun, outcome: Outcome) -> output_schema.Checked | None:
    """The whole answer held against the schema that was asked for; None: there is none of both."""
    if not begun.output_schema or outcome.status != ChatTurn.Status.COMPLETED:
        return None
    return output_schema.check(begun.output_schema, outcome.text)


def _end_turn(begun: Begun, outcome: Outcome, checked: output_schema.Checked | None) -> None:
    spent = begun.spent + outcome.spent
    ChatTurn.objects.filter(pk=begun.turn_id, status=ChatTurn.Status.RUNNING).update(
        status=outcome.status,
        finish_reason=outcome.finish_reason,
        error_code=outcome.error_code,
        error_detail=_detail(begun, outcome),
        follows_schema=checked.follows if checked else None,
        schema_error=checked.error if checked else "",
        first_token_at=outcome.first_token_at,
        stop_seen=outcome.stop_seen,
        finished_at=Now(),
        cost=_cost(begun, spent),
        **_usage(spent),
    )
    ContextRecord.objects.filter(pk=begun.record_id).update(**_usage(outcome.spent))


def _detail(begun: Begun, outcome: Outcome) -> str:
    """An endpoint may quote what it was sent: of a temporary session no table holds that."""
    if begun.is_temporary and outcome.error_code in QUOTING:
        return UNKEPT
    return outcome.error_detail[:500]


def _usage(spent: Spent) -> dict[str, int | None]:
    return {
        "input_tokens": spent.input,
        "cached_input_tokens": spent.cached_input,
        "output_tokens": spent.output,
    }


def _learn_correction(begun: Begun, outcome: Outcome) -> None:
    """Move the endpoint's correction towards reported / counted tokens of this request.

    Outside the turn's transaction, and only where it changes something: every turn of every
    session would otherwise wait for the endpoint's one row.
    """
    if not outcome.input_tokens or begun.tokens < LEAST_TO_LEARN_FROM:
        return
    row = ModelEndpoint.objects.filter(name=begun.spec.name)
    old = row.values_list("token_correction", flat=True).first()
    if old is None:
        return
    new = tokens.learned_correction(old, outcome.input_tokens, begun.tokens)
    if abs(new - old) > WORTH_WRITING:
        row.filter(token_correction=old).update(token_correction=new)


def _cost(begun: Begun, spent: Spent) -> Decimal | None:
    """By the endpoint's prices; None when no usage was reported."""
    endpoint = ModelEndpoint.objects.filter(name=begun.spec.name).first()
    return endpoint.cost_of(spent.input, spent.cached_input, spent.output) if endpoint else None


def _note_use(begun: Begun) -> None:
    """Say of the preferences that this turn was sent with when they were used last."""
    sent = begun.memory.sent_preferences
    if sent:
        preferences.used(sent)


def _mark_due(begun: Begun) -> None:
    """What follows a completed turn: see `chat.follow_ups`."""
    if begun.is_temporary:
        return
    policy = begun.memory.policy
    extracts = policy.use_preferences and settings.CHAT_PREFERENCES_MODE != "off"
    wanted = {
        dues.Kind.TITLE: settings.CHAT_TITLES_ENABLED and begun.memory.wants_title,
        dues.Kind.SUMMARY: policy.enabled and policy.summarize,
        dues.Kind.PREFERENCES: policy.enabled and extracts,
    }
    kinds = [kind for kind, is_wanted in wanted.items() if is_wanted]
    dues.mark_kinds(kinds, str(begun.session_id), begun.session_id)


def _save_window(begun: Begun, answer: ChatMessage) -> None:
    """Replace the snapshot with the window that the next turn begins with.

    Memory refuses it under another epoch than the one that was read: what was cleared meanwhile
    does not come back.
    """
    memory: TurnMemory = begun.memory
    if not memory.policy.enabled or begun.is_temporary:
        return
    added = [memory.current, *memory.running, history_message(answer)]
    recall.snapshot_after_turn(begun.session_id, memory.state, memory.policy, memory.window, added)
