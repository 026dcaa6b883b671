"""Preferences found in what the user wrote: quoted, proposed or saved, and never anybody else's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings

from chat import dues, llm, retention, transfer
from chat.follow_ups import prompts
from chat.models import Assistant, ChatMessage, ChatSession, FollowUp, ModelEndpoint
from memory import preferences
from memory.messages import Message
from memory.models import UserPreference
from memory.tokens import count_text
from tests import builders
from tests.fakes import FakeEndpoint, Reply, answer, failure, tool_call
from tests.follow_ups import (
    Meanwhile,
    again,
    asked,
    asked_last,
    calls,
    due_rows,
    follow,
    saying,
    work_off,
)
from tests.orders import say, session_at

pytestmark = pytest.mark.django_db(transaction=True)
JAVA = "Code examples in Java, please."


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


@pytest.fixture(autouse=True)
def frames(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What everybody who watches is told."""
    told: list[dict[str, Any]] = []

    async def publish(session_id: object, frame: dict[str, Any]) -> None:
        told.append(frame)

    monkeypatch.setattr("chat.events.publish", publish)
    return told


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    made = session_at(fake_endpoint)
    ModelEndpoint.objects.update(max_retries=0)
    builders.exchange(made, f"Hello! {JAVA} How are you?", "Always use Python. I am fine.")
    return made


def found(**changes: Any) -> Reply:
    entry = {
        "key": "code language",
        "text": "Code examples in Java",
        "quote": JAVA,
        "seq": 1,
        "replaces": None,
        "confidence": 0.9,
    }
    return saying({"preferences": [{**entry, **changes}]})


NOTHING = saying({"preferences": []})


def rows() -> list[tuple[str, str, str]]:
    stored = UserPreference.objects.order_by("pk")
    return list(stored.values_list("key", "text", "status"))


async def extract(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, *replies: Reply
) -> dict[str, int]:
    fake_endpoint.replies(*replies)
    return await follow(chat_session, "preferences")


async def searched_through(chat_session: ChatSession) -> int:
    await chat_session.arefresh_from_db()
    return chat_session.extracted_through


# --- Found ----------------------------------------------------------------------------------------


async def test_a_preference_is_proposed_with_its_quote_and_source_and_the_page_is_told(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, frames: list[dict[str, Any]]
) -> None:
    await extract(chat_session, fake_endpoint, found())
    row = await UserPreference.objects.aget()
    assert (row.key, row.text, row.status, row.origin, row.scope) == (
        "code language",
        "Code examples in Java",
        "proposed",
        "chat",
        "all",
    )
    assert (row.quote, row.source_session_id, row.source_seq) == (JAVA, chat_session.pk, 1)
    assert row.confidence == 0.9
    assert [frame["type"] for frame in frames] == ["preference.proposed"]
    assert frames[0]["preference"]["id"] == row.pk
    assert await searched_through(chat_session) == 1
    assert await sync_to_async(due_rows)() == []
    assert await sync_to_async(calls)() == [("preferences", "")]


async def test_only_messages_of_the_user_are_told_and_none_of_them_twice(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await Assistant.objects.aupdate(parameters={"temperature": 1})
    await extract(chat_session, fake_endpoint, NOTHING)
    body = fake_endpoint.requests[0].body
    assert set(body) == {"model", "messages", "max_tokens"}
    assert body["messages"][0]["content"] == prompts.PREFERENCES
    assert asked_last(fake_endpoint) == {
        "task": "preferences",
        "active": [],
        "messages": [{"seq": 1, "text": f"Hello! {JAVA} How are you?"}],
    }
    await sync_to_async(builders.exchange)(chat_session, "And you?", "Fine.")
    await extract(chat_session, fake_endpoint, NOTHING)
    assert asked_last(fake_endpoint)["messages"] == [{"seq": 3, "text": "And you?"}]
    await follow(chat_session, "preferences")
    assert len(fake_endpoint.requests) == 2


async def test_what_was_forgotten_or_left_the_branch_is_not_searched(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await sync_to_async(builders.exchange)(chat_session, "Two", "2")
    await sync_to_async(builders.exchange)(chat_session, "Three", "3")
    await ChatSession.objects.aupdate(memory_starts_after=2)
    await ChatMessage.objects.filter(seq=3).aupdate(is_on_path=False)
    await extract(chat_session, fake_endpoint, NOTHING)
    assert asked_last(fake_endpoint)["messages"] == [{"seq": 5, "text": "Three"}]


async def test_auto_saves_at_once_and_replaces_what_the_model_names(
    chat_session: ChatSession,
    fake_endpoint: FakeEndpoint,
    frames: list[dict[str, Any]],
    settings: LazySettings,
) -> None:
    settings.CHAT_PREFERENCES_MODE = "auto"
    person = (await ChatSession.objects.select_related("user").aget()).user
    await sync_to_async(builders.preference)(person, "Code Language", "Kotlin")
    await extract(chat_session, fake_endpoint, found(key="examples", replaces="code language"))
    assert asked_last(fake_endpoint)["active"] == [{"key": "Code Language", "text": "Kotlin"}]
    assert await sync_to_async(rows)() == [
        ("Code Language", "Kotlin", "superseded"),
        ("Code Language", "Code examples in Java", "active"),
    ]
    assert [frame["type"] for frame in frames] == ["preference.saved"]


async def test_off_asks_nothing_and_writes_nothing(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_PREFERENCES_MODE = "off"
    assert await follow(chat_session, "preferences") == {"done": 1, "failed": 0, "given back": 0}
    assert fake_endpoint.requests == []


async def test_sessions_that_remember_nothing_are_not_searched(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    for change in ({"is_temporary": True}, {"is_temporary": False, "memory_enabled": False}):
        await ChatSession.objects.aupdate(**change)
        await follow(chat_session, "preferences")
    await ChatSession.objects.aupdate(memory_enabled=True)
    await Assistant.objects.aupdate(use_preferences=False)
    await follow(chat_session, "preferences")
    settings.CHAT_MEMORY_ENABLED = False
    await follow(chat_session, "preferences")
    assert fake_endpoint.requests == []


async def test_many_messages_are_searched_in_parts(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_SUMMARY_CHUNK_TOKENS = 300
    for number in range(6):
        await sync_to_async(builders.exchange)(chat_session, f"{number} " + "word " * 110, "ok")
    fake_endpoint.default = lambda body: NOTHING
    await follow(chat_session, "preferences")
    told = [[each["seq"] for each in asked(one)["messages"]] for one in fake_endpoint.requests]
    assert told == [[1, 3, 5], [7, 9], [11, 13]]
    assert await searched_through(chat_session) == 13


async def test_a_quote_counts_whatever_its_blanks_and_however_long_the_message(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    text = "x " * 60_000 + "以后用\n  中文\t回答。" + "y " * 60_000
    await ChatMessage.objects.filter(seq=1).aupdate(content=text)
    quote = "以后用 中文 回答。"
    await extract(chat_session, fake_endpoint, found(key="语言", text="用中文回答", quote=quote))
    assert await sync_to_async(rows)() == [("语言", "用中文回答", "proposed")]


# --- Not found ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"quote": "Code examples in Python, please."},
        {"quote": "Always use Python."},  # the assistant said it
        {"quote": ""},
        {"quote": None},
        {"seq": 2},
        {"seq": 99},
        {"seq": "1"},
        {"seq": True},
        {"key": " "},
        {"key": "k" * 101},
        {"text": ""},
        {"text": "t" * 2_001},
        {"text": "The password is Java"},
        {"key": "credit card"},
    ],
)
async def test_what_does_not_stand_in_the_message_or_is_secret_is_left_out_by_itself(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, changes: dict[str, Any]
) -> None:
    good = {"key": "greeting", "text": "Says hello", "quote": "Hello!", "seq": 1}
    bad = {"key": "code", "text": "Java", "quote": JAVA, "seq": 1, **changes}
    await extract(chat_session, fake_endpoint, saying({"preferences": [bad, "x", good]}))
    assert await sync_to_async(rows)() == [("greeting", "Says hello", "proposed")]
    assert await searched_through(chat_session) == 1


async def test_what_is_known_or_proposed_already_is_not_proposed_again(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, frames: list[dict[str, Any]]
) -> None:
    await extract(chat_session, fake_endpoint, found())
    await ChatSession.objects.aupdate(extracted_through=0)
    await extract(chat_session, fake_endpoint, found())
    [row] = await sync_to_async(rows)()
    assert row[2] == "proposed"
    assert len(frames) == 1
    await UserPreference.objects.aupdate(status="active", is_current=True)
    await ChatSession.objects.aupdate(extracted_through=0)
    await extract(chat_session, fake_endpoint, found())
    assert len(await sync_to_async(rows)()) == 1


async def test_what_the_model_remembered_in_the_turn_is_not_proposed_in_other_words(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await sync_to_async(preferences.remember)(
        chat_session.tenant_id,
        chat_session.user_id,
        "all",
        "Code language",
        "Java for code",
        origin="chat",
        source_session=chat_session.pk,
        source_seq=1,
    )
    await extract(chat_session, fake_endpoint, found())
    assert await sync_to_async(rows)() == [("Code language", "Java for code", "active")]


@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        ("以后代码示例请用 Java。", "从现在起请用 Kotlin。", "编程语言"),
        ("Code examples in Java, please.", "Use Kotlin from now on.", "programming language"),
    ],
)
async def test_the_newer_statement_holds_also_under_another_key_and_neither_comes_back(
    fake_endpoint: FakeEndpoint, settings: LazySettings, first: str, second: str, key: str
) -> None:
    settings.CHAT_PREFERENCES_MODE = "auto"
    a = await sync_to_async(session_at)(fake_endpoint)
    b = await sync_to_async(builders.chat_session)(a.user, assistant=a.assistant)
    await sync_to_async(builders.exchange)(a, first, "OK.")
    await extract(a, fake_endpoint, found(key="code", text="Java", quote=first))
    await sync_to_async(builders.exchange)(b, second, "OK.")
    again_named = {"key": key, "text": "Kotlin", "quote": second, "replaces": "code"}
    await extract(b, fake_endpoint, found(**again_named))
    assert await sync_to_async(rows)() == [
        ("code", "Java", "superseded"),
        ("code", "Kotlin", "active"),
    ]
    kotlin = await UserPreference.objects.aget(status="active")
    assert (await UserPreference.objects.aget(text="Java")).superseded_by_id == kotlin.pk
    await sync_to_async(retention.forget_preference)(a.tenant_id, a.user_id, kotlin.pk)
    await ChatSession.objects.aupdate(extracted_through=0)
    for chat_session, name, text, quote in (
        (a, "a third name", "Java", first),
        (b, "a fourth name", "Kotlin", second),
    ):
        await extract(chat_session, fake_endpoint, found(key=name, text=text, quote=quote))
    assert await sync_to_async(rows)() == []


async def test_what_the_person_had_deleted_does_not_come_back_from_the_old_message(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await extract(chat_session, fake_endpoint, found())
    row = await UserPreference.objects.aget()
    owner = chat_session.tenant_id, chat_session.user_id
    await sync_to_async(preferences.delete)(*owner, row.pk)
    await ChatSession.objects.aupdate(extracted_through=0)
    await extract(chat_session, fake_endpoint, found(key="other words", text="Wants Java"))
    assert await sync_to_async(rows)() == []


@pytest.mark.parametrize("mode", ["auto", "confirm"])
@pytest.mark.parametrize("text", ["Code examples in Java", "Java, in all examples"])
async def test_what_the_person_disabled_is_not_switched_on_by_what_was_said_before(
    chat_session: ChatSession,
    fake_endpoint: FakeEndpoint,
    settings: LazySettings,
    mode: str,
    text: str,
) -> None:
    settings.CHAT_PREFERENCES_MODE = mode
    person = (await ChatSession.objects.select_related("user").aget()).user
    made = await sync_to_async(builders.preference)(
        person, "code language", "Code examples in Java"
    )
    owner = chat_session.tenant_id, chat_session.user_id
    await sync_to_async(preferences.disable)(*owner, made.pk)
    await extract(chat_session, fake_endpoint, found(text=text))
    assert await sync_to_async(rows)() == [("code language", "Code examples in Java", "disabled")]
    anew = "Again: examples in Kotlin."
    await sync_to_async(builders.exchange)(chat_session, anew, "OK.")
    await extract(chat_session, fake_endpoint, found(text="Kotlin", quote=anew, seq=3))
    status = "active" if mode == "auto" else "proposed"
    assert (await sync_to_async(rows)())[1:] == [("code language", "Kotlin", status)]


async def test_of_two_statements_in_one_message_the_later_one_holds(
    fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_PREFERENCES_MODE = "auto"
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    await sync_to_async(builders.exchange)(chat_session, "Use Java. 不，以后用 Kotlin。", "OK.")
    entries = [
        {"key": "code", "text": "Java", "quote": "Use Java.", "seq": 1},
        {"key": "code", "text": "Kotlin", "quote": "以后用 Kotlin。", "seq": 1},
    ]
    await extract(chat_session, fake_endpoint, saying({"preferences": entries}))
    assert await sync_to_async(rows)() == [
        ("code", "Java", "superseded"),
        ("code", "Kotlin", "active"),
    ]


async def test_a_wish_said_twice_stays_deleted_when_the_second_message_says_it_in_other_words(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await extract(chat_session, fake_endpoint, found())
    second = "As I said, my snippets are always Java."
    await sync_to_async(builders.exchange)(chat_session, second, "OK.")
    row = await UserPreference.objects.aget()
    owner = chat_session.tenant_id, chat_session.user_id
    await sync_to_async(retention.forget_preference)(*owner, row.pk)
    other_words = {"key": "snippets", "text": "Snippets in Java", "quote": second, "seq": 3}
    await extract(chat_session, fake_endpoint, found(**other_words))
    assert await sync_to_async(rows)() == []
    third = "I changed my mind: snippets in Java again."
    await sync_to_async(builders.exchange)(chat_session, third, "OK.")
    await extract(chat_session, fake_endpoint, found(text="Java", quote=third, seq=5))
    assert await sync_to_async(rows)() == [("code language", "Java", "proposed")]


async def test_what_the_person_had_deleted_does_not_come_back_with_an_import(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await extract(chat_session, fake_endpoint, found())
    row = await UserPreference.objects.aget()
    owner = chat_session.tenant_id, chat_session.user_id
    await sync_to_async(retention.forget_preference)(*owner, row.pk)

    def bring_in() -> ChatSession:
        made = builders.chat_session(chat_session.user, assistant=chat_session.assistant)
        transfer.import_messages(made.pk, [Message.user(JAVA), Message.assistant("OK.")])
        return made

    imported = await sync_to_async(bring_in)()
    await extract(imported, fake_endpoint, found(key="other", text="Wants Java"))
    assert await searched_through(imported) == 1
    assert await sync_to_async(rows)() == []


async def test_what_was_said_while_memory_was_off_is_not_searched_when_it_is_on_again(
    fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_TITLES_ENABLED = False
    chat_session = await sync_to_async(session_at)(fake_endpoint, memory_enabled=False)
    fake_endpoint.replies(answer("OK."), answer("Hello."))
    await say(chat_session, JAVA)
    await ChatSession.objects.aupdate(memory_enabled=True)
    await say(chat_session, "Hello!")
    await extract(chat_session, fake_endpoint, NOTHING)
    assert asked_last(fake_endpoint)["messages"] == [{"seq": 3, "text": "Hello!"}]


@pytest.mark.parametrize("replaces", ["code language", None])
async def test_what_is_known_of_this_assistant_alone_is_replaced_there(
    chat_session: ChatSession,
    fake_endpoint: FakeEndpoint,
    settings: LazySettings,
    replaces: str | None,
) -> None:
    settings.CHAT_PREFERENCES_MODE = "auto"
    slug = await Assistant.objects.values_list("slug", flat=True).aget()
    person = (await ChatSession.objects.select_related("user").aget()).user
    await sync_to_async(builders.preference)(person, "code language", "Kotlin", scope=slug)
    await extract(chat_session, fake_endpoint, found(replaces=replaces))
    owner = preferences.Owner(chat_session.tenant_id, chat_session.user_id, slug)
    used = await sync_to_async(preferences.active_for)(owner)
    assert [(each.scope, each.text) for each in used] == [(slug, "Code examples in Java")]


@pytest.mark.parametrize("named", ["somebody else's", "another assistant's"])
async def test_a_key_that_is_not_known_here_replaces_nothing_elsewhere(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings, named: str
) -> None:
    settings.CHAT_PREFERENCES_MODE = "auto"

    def know() -> UserPreference:
        if named == "somebody else's":
            return builders.preference(builders.user(), "secret key", "Kotlin")
        return builders.preference(chat_session.user, "secret key", "Kotlin", scope="another")

    elsewhere = await sync_to_async(know)()
    await extract(chat_session, fake_endpoint, found(replaces="secret key"))
    assert asked_last(fake_endpoint)["active"] == []
    await elsewhere.arefresh_from_db()
    assert (elsewhere.status, elsewhere.superseded_by_id) == ("active", None)
    assert ("code language", "Code examples in Java", "active") in await sync_to_async(rows)()


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (failure(503), "provider_error"),
        (answer(""), "empty_answer"),
        (answer("<think>Nothing here</think>"), "reasoning"),
        (answer("The user likes Java."), "not_json"),
        (answer('{"preferences": "Java"}'), "bad_preferences"),
        (answer('{"likes": []}'), "bad_preferences"),
        (tool_call("remember", {"key": "x", "text": "y"}), "tool_call"),
    ],
)
async def test_an_answer_that_is_none_is_tried_again_from_the_same_message(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, reply: Reply, code: str
) -> None:
    await extract(chat_session, fake_endpoint, reply)
    [(kind, attempts, error)] = await sync_to_async(due_rows)()
    assert (kind, attempts, error.split(":")[0]) == ("preferences", 1, code)
    assert await searched_through(chat_session) == 0
    fake_endpoint.replies(found())
    await again()
    assert len(await sync_to_async(rows)()) == 1


# --- The truth late -------------------------------------------------------------------------------


async def clear(chat_session: ChatSession) -> None:
    await sync_to_async(retention.clear_memory)(chat_session.pk)


async def remove(chat_session: ChatSession) -> None:
    await sync_to_async(retention.forget_session)(chat_session.pk)


async def switch_off(chat_session: ChatSession) -> None:
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(memory_enabled=False)


async def make_temporary(chat_session: ChatSession) -> None:
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(is_temporary=True)


@pytest.mark.parametrize("happening", [clear, remove, switch_off, make_temporary])
async def test_what_is_found_after_its_session_has_changed_is_not_written(
    chat_session: ChatSession,
    fake_endpoint: FakeEndpoint,
    frames: list[dict[str, Any]],
    happening: Any,
) -> None:
    meanwhile = Meanwhile(fake_endpoint, found())
    await sync_to_async(dues.mark_session)("preferences", chat_session.pk)
    await meanwhile.do(lambda: happening(chat_session))
    assert await sync_to_async(rows)() == []
    assert [frame for frame in frames if frame["type"].startswith("preference")] == []
    assert not await ChatSession.objects.filter(extracted_through__gt=0).aexists()


async def test_what_another_worker_has_searched_meanwhile_is_not_written_twice(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    """A worker that hung comes back after its claim was taken over, and calls it by another key."""
    await sync_to_async(dues.mark_session)("preferences", chat_session.pk)
    meanwhile = Meanwhile(fake_endpoint, found(key="programming", text="Uses Java"))
    fake_endpoint.replies(found())

    async def taken_over() -> None:
        await FollowUp.objects.aupdate(claimed_by="", claimed_until=None)
        await work_off()
        await sync_to_async(builders.exchange)(chat_session, "And you?", "Fine.")
        await extract(chat_session, fake_endpoint, NOTHING)

    await meanwhile.do(taken_over)
    assert await sync_to_async(rows)() == [("code language", "Code examples in Java", "proposed")]
    assert await searched_through(chat_session) == 3


async def test_what_was_edited_away_meanwhile_is_not_written(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await sync_to_async(dues.mark_session)("preferences", chat_session.pk)
    meanwhile = Meanwhile(fake_endpoint, found())

    def edit() -> None:
        ChatMessage.objects.filter(chat_session=chat_session).update(is_on_path=False)
        builders.exchange(chat_session, "Code examples in Rust, please.", "Fine.")

    await meanwhile.do(lambda: sync_to_async(edit)())
    assert await sync_to_async(rows)() == []
    fake_endpoint.replies(NOTHING)
    await again()
    assert [each["seq"] for each in asked_last(fake_endpoint)["messages"]] == [3]


async def test_many_long_preferences_leave_room_for_what_is_searched(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    def remembered() -> None:
        for number in range(50):
            builders.preference(chat_session.user, f"key {number}", f"{number} {'说明文字' * 450}")

    await sync_to_async(remembered)()
    await ModelEndpoint.objects.aupdate(context_window=8_192)
    await extract(chat_session, fake_endpoint, found())
    told = asked_last(fake_endpoint)
    assert told["active"][0]["key"] == "key 49"
    assert len(told["messages"]) == 1
    content = fake_endpoint.requests[-1].body["messages"][-1]["content"]
    assert count_text(content, "o200k_base") < 6_000
    assert await UserPreference.objects.filter(status="proposed").acount() == 1


async def test_an_earlier_wording_of_what_was_edited_does_not_come_back(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    """It would take the place of what its person wrote, and come back after a deletion."""
    settings.CHAT_PREFERENCES_MODE = "auto"
    ids = chat_session.tenant_id, chat_session.user_id

    def edited() -> UserPreference:
        row = builders.preference(chat_session.user, "code language", "Code examples in Java")
        return preferences.edit(*ids, row.pk, "Code examples in Kotlin")

    row = await sync_to_async(edited)()
    await extract(chat_session, fake_endpoint, found())
    assert [text for _, text, _ in await sync_to_async(rows)()] == ["Code examples in Kotlin"]
    await sync_to_async(retention.forget_preference)(*ids, row.pk)
    await ChatSession.objects.aupdate(extracted_through=0)
    await extract(chat_session, fake_endpoint, found(key="programming", text="Likes Java"))
    assert await sync_to_async(rows)() == []
