"""Checks of what a session's next request would remember: switches, lines, snapshot, summary,
preferences."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone

from chat.inspection import deciding, session_checks
from chat.inspection.checks import FINDING, NOTE, OK, Check, Facts, count
from chat.models import FollowUp
from chat.turns import policies
from chat.turns.history import SessionHistory
from memory import digests, preferences, snapshots, summaries
from memory.input_blocks import within_share
from memory.models import ForgottenPreference, MemorySnapshot, UserPreference
from memory.recall import SessionState

BEYOND = 2**62  # a seq that no message reaches
LEAST_WINDOW = 2  # messages: one exchange
WHY_REBUILT = {
    "missing": (NOTE, "There is none, so the window is built from the history."),
    "version": (NOTE, "It is of another version of the product, and will be built again."),
    "epoch": (
        NOTE,
        "It is of an earlier epoch (memory was cleared, or a branch chosen), and is not used.",
    ),
    "policy": (NOTE, "The limits have changed since, and it will be built again."),
    "behind": (NOTE, "It is behind the newest message, and will be built again."),
    "unreadable": (FINDING, "It cannot be read, and is built again at every turn."),
    "unavailable": (FINDING, "Its store does not answer; the window is built from the history."),
}


def switches(facts: Facts) -> Iterator[Check]:
    """What is on, what is off, and who said so."""
    off = [each for each in policies.switches(facts.chat_session) if each.value is False]
    names = ("enabled", "summarize", "use_preferences", "use_digest")
    is_off = any(each.name == "enabled" for each in off)
    labels = ", ".join(f"{deciding.LABELS[each.name]} (by the {each.source})" for each in off)
    yield Check(
        "Switches",
        FINDING if is_off else OK,
        f"Off: {labels}." if off else "Everything is on.",
        "With memory off every turn begins from nothing. Switch it on where it is off; what the"
        " environment forbids stays off."
        if is_off
        else "",
        names,
    )


def window(facts: Facts) -> Iterator[Check]:
    """The limits in force, and whether the newest request went by them."""
    found = {each.name: each for each in policies.switches(facts.chat_session)}
    most = found["max_messages"].value
    is_tiny = isinstance(most, int) and most < LEAST_WINDOW
    yield Check(
        "Window",
        FINDING if is_tiny else OK,
        f"{_limit(found['max_messages'], 'message')}; {_limit(found['max_tokens'], 'token')}.",
        "One message holds no exchange: set 2 or more." if is_tiny else "",
        ("max_messages", "max_tokens", "stride"),
    )
    then = facts.manifest.get("policy") or {}
    changed = [
        f"{deciding.LABELS[name]}: {deciding.shown(then[name])} then,"
        f" {deciding.shown(found[name].value)} now"
        for name in ("max_messages", "max_tokens", "enabled")
        if name in then and then[name] != found[name].value
    ]
    if changed:
        yield Check(
            "Newest request's limits",
            NOTE,
            f"{'; '.join(changed)}.",
            "The next turn goes by the new ones; a larger limit brings older messages back.",
        )


def _limit(switch: policies.Switch, unit: str) -> str:
    most = switch.value
    said = f"no limit of {unit}s" if most is None else f"At most {count(most, unit)}"
    return f"{said} (by the {switch.source})"


def lines(facts: Facts) -> Iterator[Check]:
    """Where memory was cut: by somebody who cleared it, or by a long pause."""
    chat_session = facts.chat_session
    forget, idle = chat_session.memory_starts_after, chat_session.idle_line
    yield Check(
        "Forget line",
        NOTE if forget else OK,
        f"Memory was cleared: nothing up to message {forget} is sent any more."
        if forget
        else "Memory was never cleared.",
        settings=("memory_starts_after",) if forget else (),
    )
    yield Check(
        "Pause",
        NOTE if idle > forget else OK,
        f"After a pause the window began anew behind message {idle}."
        if idle > forget
        else "No pause has put anything out of the window.",
        settings=("CHAT_MEMORY_IDLE_DAYS",),
    )


def snapshot(facts: Facts) -> Iterator[Check]:
    """Whether the next turn can use it; a rebuilt window is the same, and costs a few reads."""
    chat_session = facts.chat_session
    policy = policies.memory_policy(chat_session)
    if not policy.enabled:
        yield Check("Snapshot", NOTE, "Memory is off: none is read or written.")
        return
    stored, why = snapshots.read(_state(facts), policy)
    row = MemorySnapshot.objects.filter(pk=chat_session.pk).defer("messages").first()
    about = ""
    if row is not None:
        about = (
            f" Revision {row.revision} through message {row.through_seq}, epoch"
            f" {row.memory_epoch}, stored {row.updated_at:%Y-%m-%d %H:%M} UTC."
        )
    if stored is not None:
        held = f"It is current and holds {count(len(stored.messages), 'message')}."
        yield Check("Snapshot", OK, held + about)
        return
    state, text = WHY_REBUILT.get(why, (NOTE, f"It is not used: {why}."))
    if why == "missing" and not facts.turns["completed"]:
        state = OK
    if why == "behind" and facts.holder is not None:
        state, text = OK, "A turn is running; it is replaced at its end."
    remedy = "The server's log says what is wrong with it." if state == FINDING else ""
    yield Check("Snapshot", state, text + about, remedy)


def _state(facts: Facts) -> SessionState:
    chat_session = facts.chat_session
    return SessionState(
        id=chat_session.pk,
        memory_epoch=chat_session.memory_epoch,
        forget_line=chat_session.memory_starts_after,
        newest_seq=facts.newest_seq,
        idle_line=chat_session.idle_line,
    )


def summary(facts: Facts) -> Iterator[Check]:
    """Whether one may be used, what it covers, what still waits, and what stops the next."""
    chat_session = facts.chat_session
    policy = policies.memory_policy(chat_session)
    if not (policy.enabled and policy.summarize):
        yield Check(
            "Summary",
            OK,
            "Summaries are off: what leaves the window is not sent.",
            "",
            ("summarize",),
        )
        return
    reader = SessionHistory(chat_session.pk, after=0, before=BEYOND)
    line = chat_session.memory_starts_after
    usable = summaries.usable(chat_session.pk, forget_line=line, reader=reader)
    newest = summaries.newest_version(chat_session.pk)
    if usable is not None:
        covers = f"messages {usable.covers_from} to {usable.covers_through}"
        yield Check("Summary", OK, f"Version {usable.version} of {newest} stands for {covers}.")
    else:
        text = f"None of the {newest} stored may be used on this branch." if newest else "None yet."
        yield Check("Summary", NOTE if newest else OK, text)
    yield from _waiting(facts)


def _waiting(facts: Facts) -> Iterator[Check]:
    """Turns that left the window before a summary stood for them."""
    due = [each for each in facts.follow_ups if each.kind == FollowUp.Kind.SUMMARY]
    lost = sum(
        each["through"] - each["from"] + 1
        for each in facts.manifest.get("left_out") or ()
        if each["reason"] == "awaiting_summary"
    )
    if lost:
        yield Check(
            "Not summarised",
            FINDING,
            f"The newest request left out {count(lost, 'message')} that no summary stands for yet.",
            "A worker makes it: `manage.py run_due`, or CHAT_FOLLOW_UPS_IN_WEB."
            if not any(each.attempts for each in due)
            else "See below why it fails.",
        )
    for row in due:
        yield session_checks.follow_up(row)


def remembered(facts: Facts) -> Iterator[Check]:
    """Preferences of the person that concern this session, and the digest."""
    chat_session = facts.chat_session
    mine = Q(tenant=chat_session.tenant_id, user=chat_session.user_id)
    now = timezone.now()
    found = UserPreference.objects.filter(mine).aggregate(
        active=Count("pk", filter=Q(is_current=True)),
        proposed=Count("pk", filter=Q(status=UserPreference.Status.PROPOSED)),
        disabled=Count("pk", filter=Q(status=UserPreference.Status.DISABLED)),
        expired=Count("pk", filter=Q(is_current=True, expires_at__lte=now)),
    )
    hashes = ForgottenPreference.objects.filter(mine).count()
    chosen = preferences.active_for(policies.owner_of(chat_session))
    encoding = chat_session.assistant.endpoint.encoding
    _, beyond = within_share(chosen, settings.CHAT_PREFERENCE_TOKENS, encoding)
    said = ", ".join(f"{number} {name}" for name, number in found.items() if number) or "None"
    text = f"{said}; {len(chosen)} concern this assistant"
    text += f", {len(beyond)} of them beyond their share of a request" if beyond else ""
    text += (
        f"; {count(hashes, 'trace')} of deleted ones keep those from coming back" if hashes else ""
    )
    yield Check(
        "Preferences",
        NOTE if beyond or found["expired"] or found["proposed"] else OK,
        f"{text}.",
        "Raise the share, or delete what is not needed: those that fit the message best go first."
        if beyond
        else "",
        ("use_preferences", "CHAT_PREFERENCE_TOKENS"),
    )
    digest = digests.of(chat_session.tenant_id, chat_session.user_id)
    text = f"Made from {count(len(digest.sources), 'session')}." if digest else "There is none."
    yield Check("Digest", OK, text, settings=("use_digest",))
