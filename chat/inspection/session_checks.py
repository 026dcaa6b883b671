"""Checks of a session itself: who holds it, its turns and rows, its endpoint, its last errors."""

from __future__ import annotations

from collections.abc import Iterator

from chat import temporary
from chat.inspection import checks
from chat.inspection.checks import FINDING, MOST_UNINDEXED, NOTE, OK, Check, Facts, count
from chat.models import ChatTurn, FollowUp
from chat.search import messages
from chat.turns import policies
from memory.tokens import count_text

FAR_OFF = 1.5  # times our count; beyond it the encoding is the wrong one
REBUILD = "Run `manage.py rebuild_search`."


def ids(facts: Facts) -> Iterator[Check]:
    """Who the session belongs to, and whether its assistant may be used."""
    chat_session = facts.chat_session
    assistant, person, tenant = chat_session.assistant, chat_session.user, chat_session.tenant
    about = f"Session {chat_session.pk} of user {person.pk} in tenant {tenant.slug}"
    wrong = []
    if not person.is_active:
        wrong.append("the user is deactivated")
    if not tenant.is_active:
        wrong.append("the tenant is deactivated")
    if not checks.belongs(facts):
        wrong.append("the user is no member of the tenant any more, and cannot open the session")
    if assistant.tenant_id not in (None, tenant.pk):
        wrong.append(f"the assistant {assistant.slug} belongs to another tenant")
    yield Check(
        "Ids",
        FINDING if wrong else OK,
        f"{about}: {'; '.join(wrong)}." if wrong else f"{about}, which its user may open.",
        "Each session remembers for itself alone. Compare the id with the one in the address of"
        " the page that forgets."
        if wrong
        else "",
    )
    is_usable = assistant.is_active and assistant.endpoint.is_active
    yield Check(
        "Assistant",
        OK if is_usable else NOTE,
        f"{assistant.slug} at {assistant.endpoint.name}"
        + ("." if is_usable else ": not offered for new sessions any more."),
    )


def turns(facts: Facts) -> Iterator[Check]:
    """What ended how, and whether something runs that nobody is running."""
    counts = {status: facts.turns[status] for status in ChatTurn.Status.values}
    said = ", ".join(f"{number} {status}" for status, number in counts.items() if number)
    if not said:
        yield Check("Turns", NOTE, "No turn was ever begun.")
    elif not counts["completed"]:
        yield Check(
            "Turns",
            FINDING,
            f"No turn was completed ({said}).",
            "A turn without any answer text is left out of the history whole. See the last errors"
            " below.",
        )
    else:
        yield Check("Turns", OK, f"{said}.")
    yield from _lease(facts, counts["running"])


def _lease(facts: Facts, running: int) -> Iterator[Check]:
    holder = facts.holder
    if holder is None and running:
        yield Check(
            "Lease",
            FINDING,
            f"{count(running, 'turn')} said to run, and nobody holds the session.",
            "Run `manage.py reap_turns`: they end as interrupted.",
        )
    elif holder is None:
        yield Check("Lease", OK, "Nothing runs.")
    elif holder.is_expired:
        yield Check(
            "Lease",
            FINDING,
            f"Turn {holder.turn} lost its process: its lease has expired.",
            "The next message or `manage.py reap_turns` ends it as interrupted.",
        )
    else:
        yield Check("Lease", OK, f"Turn {holder.turn} is running.")


def rows(facts: Facts) -> Iterator[Check]:
    """What is stored: numbers, the chosen branch and its end, counters."""
    found, chat_session = facts.rows, facts.chat_session
    missing = (found["newest"] or 0) - found["stored"]
    text = f"{found['stored']} messages, {found['on_path']} of them on the chosen branch"
    if missing:
        text += f"; {count(missing, 'number')} without a message: some were deleted"
    if found["redacted"]:
        text += f"; {found['redacted']} redacted"
    yield Check("Messages", NOTE if missing or found["redacted"] else OK, f"{text}.")
    broken = _broken_branch(facts)
    yield Check(
        "Chosen branch",
        FINDING if broken else OK,
        f"{'; '.join(broken)}." if broken else "One line from its first message to its end.",
        "Choose a branch in the page, which writes the line anew; if it stays, restore from a"
        " backup."
        if broken
        else "",
    )
    wrong = [
        f"{name} is {stored} and should be {counted}"
        for name, stored, counted in (
            ("message_count", chat_session.message_count, found["stored"]),
            ("path_count", chat_session.path_count, found["on_path"]),
            ("failed_turns", chat_session.failed_turns, facts.turns["failed"]),
            ("interrupted_turns", chat_session.interrupted_turns, facts.turns["interrupted"]),
            ("stopped_turns", chat_session.stopped_turns, facts.turns["stopped"]),
        )
        if stored != counted
    ]
    if chat_session.next_seq <= (found["newest"] or 0):
        wrong.append(f"next_seq is {chat_session.next_seq}, not beyond {found['newest']}")
    if chat_session.turn_count < (facts.turns["newest"] or 0):
        wrong.append(f"turn_count is {chat_session.turn_count}, below {facts.turns['newest']}")
    yield Check(
        "Counters",
        FINDING if wrong else OK,
        f"{'; '.join(wrong)}." if wrong else "They agree with the rows.",
        "Something wrote rows past the product; counters are kept with every change."
        if wrong
        else "",
    )


def _broken_branch(facts: Facts) -> list[str]:
    found, head = facts.rows, facts.chat_session.head
    broken = []
    if found["on_path"] and found["beginnings"] != 1:
        broken.append(f"{found['beginnings']} messages begin it")
    if found["parents"] != found["on_path"] - found["beginnings"]:
        broken.append("two of its messages follow the same one")
    if found["off_branch"]:
        broken.append(f"{found['off_branch']} messages follow one of another branch")
    if found["backwards"]:
        broken.append(f"{found['backwards']} messages stand before the one that they follow")
    if found["strangers"] or found["other_turns"]:
        strangers = found["strangers"] + found["other_turns"]
        broken.append(f"{strangers} messages hang on rows of another session")
    if (head.seq if head is not None else 0) != facts.newest_seq:
        broken.append("the session's head is not its newest message")
    return broken


def sent(facts: Facts) -> Iterator[Check]:
    """What the newest request held of the history, since that is what the model knew."""
    record, manifest = facts.newest, facts.manifest
    if record is None:
        yield Check("Newest request", NOTE, "No request was recorded.")
        return
    window = manifest.get("window") or {}
    held = window.get("messages") or 0
    before = manifest.get("of")
    text = f"Turn {record.turn.number} was sent {count(held, 'message')} of the history"
    text += f", out of {before} before its input" if before is not None else ""
    if held:
        text += f": {window.get('from_seq')} to {window.get('through_seq')}"
    is_empty = not held and bool(before)
    yield Check(
        "Newest request",
        FINDING if is_empty else OK,
        f"{text}.",
        "Its context page says of every range why it was left out." if is_empty else "",
    )


def search(facts: Facts) -> Iterator[Check]:
    """Whether what was said can be found, by people and by the tool search_history."""
    if facts.chat_session.is_temporary:
        yield Check(
            "Search",
            FINDING if facts.entries else OK,
            f"A temporary session has {facts.entries} entries in the index.",
            f"It must have none. {REBUILD}" if facts.entries else "",
        )
        return
    if notice := messages.notice():
        yield Check("Search", NOTE, notice)
    missing = facts.unindexed
    many = f"{'at least ' if missing == MOST_UNINDEXED else ''}{count(missing, 'message')}"
    yield Check(
        "Search index",
        FINDING if missing else OK,
        f"{many} not in the index." if missing else f"{facts.entries} entries.",
        REBUILD if missing else "",
    )


def cache(facts: Facts) -> Iterator[Check]:
    """Where a temporary session keeps its text."""
    if not facts.chat_session.is_temporary:
        return
    try:
        texts = temporary.texts_of(facts.chat_session.pk)
    except temporary.TextsUnavailable as away:
        yield Check("Temporary text", FINDING, str(away), "Start Redis, or see REDIS_URL.")
        return
    stored = facts.rows["stored"]
    is_gone = bool(stored) and not texts
    yield Check(
        "Temporary text",
        FINDING if is_gone else OK,
        "It has expired."
        if is_gone
        else f"The text of {count(len(texts), 'message')} is in the cache.",
        "CHAT_TEMPORARY_HOURS says how long it is kept; begin a new session." if is_gone else "",
    )


def endpoint(facts: Facts) -> Iterator[Check]:
    """Where the model is, what a request may hold there, and how well we count."""
    assistant = facts.chat_session.assistant
    found = assistant.endpoint
    if found.api_key_env and not checks.key_is_set(found.api_key_env):
        yield Check(
            "Key",
            FINDING,
            f"The environment variable {found.api_key_env} is not set in this process.",
            "Set it where the server starts, and restart.",
        )
    else:
        yield Check("Key", OK, "Set." if found.api_key_env else "The endpoint needs none.")
    limit = policies.request_budget(found).limit
    prompt = count_text(assistant.system_prompt, found.encoding)
    is_tight = prompt * 2 > limit
    text = f"A request may hold {limit:,} tokens; the prompt takes {prompt:,} of them"
    if found.learned_context_window:
        text += f". The endpoint itself said that it takes {found.learned_context_window:,}"
    yield Check(
        "Room",
        FINDING if is_tight else NOTE if found.learned_context_window else OK,
        f"{text}.",
        "More than half is gone before anything is remembered: shorten the prompt, or raise the"
        " endpoint's context window."
        if is_tight
        else "",
        ("context_window", "max_output_tokens", "CHAT_CONTEXT_MARGIN_PERCENT"),
    )
    correction = found.token_correction
    is_off = not 1 / FAR_OFF <= correction <= FAR_OFF
    yield Check(
        "Token count",
        NOTE if is_off else OK,
        f"The endpoint reports {correction:.2f} times what we count ({found.encoding}).",
        "Choose the encoding that fits the model, or estimate." if is_off else "",
        ("token_correction",),
    )


def errors(facts: Facts) -> Iterator[Check]:
    """The last failures of turns and of what is done after them."""
    for turn in facts.failed_turns:
        yield Check(
            f"Turn {turn.number}",
            NOTE,
            f"Failed: {turn.error_code or 'no code'}.",
            detail=turn.error_detail,
        )
    for call in facts.failed_calls:
        yield Check(f"Call for {call.get_kind_display().lower()}", NOTE, f"{call.error_code}.")
    if not facts.failed_turns and not facts.failed_calls:
        yield Check("Errors", OK, "No turn and no call failed.")


def follow_ups(facts: Facts) -> Iterator[Check]:
    """What is due after turns: titles, summaries, preferences."""
    for row in facts.follow_ups:
        if row.kind == FollowUp.Kind.SUMMARY:
            continue  # told with the summary
        yield follow_up(row)


def follow_up(row: FollowUp) -> Check:
    is_failing = row.attempts > 0
    code = row.last_error.split(":", 1)[0]
    text = f"Failed {count(row.attempts, 'time')}, lastly with {code}" if is_failing else "Due"
    return Check(
        f"Due: {row.get_kind_display().lower()}",
        FINDING if is_failing else NOTE,
        f"{text}; next at {row.due_at:%Y-%m-%d %H:%M} UTC.",
        "The error is the endpoint's or the model's. `manage.py run_due` tries what is due."
        if is_failing
        else "",
        detail=row.last_error if is_failing else "",
    )
