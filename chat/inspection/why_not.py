"""Was a message in the request of a turn, and if not, why: read from what the turn recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet, Sum

from chat.inspection import reasons
from chat.inspection.reasons import DELETED, NOT_RECORDED, NOT_YET_SAID, Reason
from chat.inspection.shares import lines_of
from chat.models import ChatMessage, ChatSession, ChatTurn, ContextRecord

SENT, LEFT_OUT, OWN_ANSWER = "sent", "left_out", "own_answer"


@dataclass(frozen=True)
class Wanted:
    """The message that is asked about; `row` is None when the session has none with this seq."""

    seq: int
    row: ChatMessage | None


@dataclass(frozen=True)
class Verdict:
    """What became of a message in one request of a turn."""

    state: str
    """ "sent", "left_out" or "own_answer"."""
    reason: str = ""
    number: int = 0
    """Of a message that was sent: its place in the request, from 1."""
    kind: str = ""
    tokens: int = 0
    mark: str = ""
    """How it was changed when it was sent: cut_off, shortened, images_left_out."""
    with_others: bool = False
    """It was sent as one message with its neighbour."""
    from_seq: int = 0
    through_seq: int = 0
    """The range that was left out for the same reason."""
    limit: str = ""
    """The number that decided, as it was then."""

    @property
    def explained(self) -> Reason:
        return reasons.of_message(self.reason)


@dataclass(frozen=True)
class Distance:
    """How far a message lies before the input: what a window must hold to reach it."""

    messages: int
    tokens: int


def wanted(chat_session: ChatSession, seq: int) -> Wanted:
    return Wanted(seq, ChatMessage.objects.filter(chat_session=chat_session, seq=seq).first())


def verdict(manifest: Mapping[str, Any], turn: ChatTurn, asked: Wanted) -> Verdict:
    """What a request's manifest says of a message. `turn` comes with its input."""
    found = _among_sent(manifest, asked)
    if found is not None:
        return found
    if asked.row is not None and asked.row.turn_id == turn.pk:
        return Verdict(OWN_ANSWER)
    for each in manifest.get("left_out") or ():
        if each["from"] <= asked.seq <= each["through"]:
            reason = each["reason"]
            limit = reasons.limit_of(reason, manifest)
            if asked.row is None:
                reason, limit = DELETED, ""
            return Verdict(
                LEFT_OUT, reason, from_seq=each["from"], through_seq=each["through"], limit=limit
            )
    if asked.row is None:
        return Verdict(LEFT_OUT, DELETED)
    return Verdict(LEFT_OUT, NOT_YET_SAID if asked.seq > turn.input.seq else NOT_RECORDED)


def _among_sent(manifest: Mapping[str, Any], asked: Wanted) -> Verdict | None:
    for number, line in enumerate(lines_of(manifest), 1):
        ids = line.get("ids") or ()
        is_it = str(asked.row.pk) in ids if asked.row is not None else line.get("seq") == asked.seq
        if is_it:
            return Verdict(
                SENT,
                number=number,
                kind=line.get("kind", ""),
                tokens=line.get("tokens") or 0,
                mark=line.get("mark", ""),
                with_others=len(ids) > 1,
            )
    return None


def distance(asked: Wanted, turn: ChatTurn) -> Distance | None:
    """Counted from the beginning of its exchange, since a window holds whole exchanges; None for
    what does not stand before the input on the chosen branch."""
    row = asked.row
    if row is None or not row.is_on_path or row.seq >= turn.input.seq:
        return None
    branch = ChatMessage.objects.filter(chat_session=turn.chat_session_id, is_on_path=True)
    begins = branch.filter(role=ChatMessage.Role.USER, seq__lte=row.seq).order_by("-seq")
    start = begins.values_list("seq", flat=True).first() or row.seq
    between = branch.filter(seq__gte=start, seq__lt=turn.input.seq)
    tokens = between.aggregate(tokens=Sum("token_count"))["tokens"]
    return Distance(between.count(), tokens or 0)


# --- Turns and their requests ---------------------------------------------------------------------


def turn_of(chat_session: ChatSession, number: int | None) -> ChatTurn | None:
    """The turn with this number, or the newest one."""
    turns = ChatTurn.objects.filter(chat_session=chat_session).select_related("input")
    return (
        turns.order_by("-number").first() if number is None else turns.filter(number=number).first()
    )


def requests_of(turn: ChatTurn) -> list[ContextRecord]:
    return list(ContextRecord.objects.filter(turn=turn).order_by("attempt"))


def manifest_of(record: ContextRecord) -> Mapping[str, Any]:
    return record.manifest if isinstance(record.manifest, dict) else {}


def runs_of(turn: ChatTurn) -> QuerySet[ChatTurn]:
    """Every turn for the same input, this one too."""
    rows = ChatTurn.objects.filter(chat_session=turn.chat_session_id, input=turn.input_id)
    return rows.order_by("number")


def before(record: ContextRecord, turn: ChatTurn) -> ContextRecord | None:
    """The request before this one: the same turn's, else the last one of the turn before."""
    earlier = ContextRecord.objects.filter(chat_session=record.chat_session_id).filter(
        Q(turn=turn.pk, attempt__lt=record.attempt) | Q(turn__number__lt=turn.number)
    )
    return earlier.select_related("turn").order_by("-turn__number", "-attempt").first()


def lines_when(turn: ChatTurn, sent: Sequence[ContextRecord]) -> tuple[int, int] | None:
    """The forget line and the pause line as the first request of a turn met them; None: unknown."""
    ranges = manifest_of(sent[0]).get("left_out") if sent else None
    if ranges is None:
        return None
    ends: dict[str, int] = {}
    for each in ranges:
        ends[each["reason"]] = max(ends.get(each["reason"], 0), each["through"])
    if "memory_off" in ends:
        return None
    idle = ends.get("idle", 0)
    if "covered_by_summary" in ends and turn.chat_session.idle_line < turn.input.seq:
        idle = turn.chat_session.idle_line  # the summary's range may hide it
    return ends.get("before_forget_line", 0), idle
