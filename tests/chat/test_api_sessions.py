"""Sessions over REST: list, create, read, change, delete, clear memory."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from redis.exceptions import ConnectionError as RedisConnectionError

from chat import events, leases
from chat.api.throttles import RequestThrottle
from chat.models import AuditEvent, ChatMessage, ChatSession, ChatTurn, SessionTombstone
from memory import preferences
from memory.models import UserPreference
from tests import builders
from tests.chat.api import ROOT, Api, field_errors

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> Any:
    builders.tenant("default")
    return builders.user("alice")


@pytest.fixture
def api(alice: Any) -> Api:
    return Api(alice)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The frames that watchers of sessions were told."""
    heard: list[dict[str, Any]] = []
    monkeypatch.setattr(events, "publish_from_thread", lambda _, frame: heard.append(frame))
    return heard


def path(chat_session: ChatSession, rest: str = "") -> str:
    return f"/sessions/{chat_session.pk}/{rest}"


# --- Reading --------------------------------------------------------------------------------------


def test_a_session_is_shown_with_everything_that_a_page_needs(api: Api, alice: Any) -> None:
    assistant = builders.assistant("helper", name="Helper")
    chat_session = builders.chat_session(alice, assistant=assistant, title="Über 青云 😄")
    builders.exchange(chat_session)
    chat_session.refresh_from_db()
    assert api.get(path(chat_session)).json() == {
        "id": str(chat_session.pk),
        "title": "Über 青云 😄",
        "title_source": "auto",
        "assistant": {"slug": "helper", "name": "Helper"},
        "is_pinned": False,
        "is_archived": False,
        "is_temporary": False,
        "memory_enabled": None,
        "max_messages": None,
        "max_tokens": None,
        "memory_starts_after": 0,
        "message_count": 2,
        "running": None,
        "created_at": chat_session.created_at.isoformat(),
        "last_active_at": chat_session.last_active_at.isoformat(),
    }


def test_the_running_turn_is_named(api: Api, alice: Any) -> None:
    chat_session = builders.chat_session(alice)
    turn_id = uuid.uuid4()
    leases.take(chat_session.pk, turn_id)
    assert api.get(path(chat_session)).json()["running"] == str(turn_id)


def make_sessions(alice: Any, count: int) -> list[str]:
    """Ids, the newest activity first."""
    assistant, now = builders.assistant(), timezone.now()
    made = [builders.chat_session(alice, assistant=assistant) for _ in range(count)]
    for minutes, chat_session in enumerate(made):
        ChatSession.objects.filter(pk=chat_session.pk).update(
            last_active_at=now - timedelta(minutes=minutes)
        )
    return [str(chat_session.pk) for chat_session in made]


def pages_from(api: Api, url: str | None, key: str) -> list[list[str]]:
    pages = []
    while url:
        query = dict(parse_qsl(urlsplit(url).query))
        page = api.get("/sessions/", **query).json()
        pages.append([row["id"] for row in page["results"]])
        url = page[key]
    return pages


def test_sessions_are_listed_by_their_last_activity_in_pages_both_ways(
    api: Api, alice: Any
) -> None:
    expected = make_sessions(alice, 7)
    forward = pages_from(api, f"{ROOT}/sessions/?page_size=3", "next")
    assert forward == [expected[0:3], expected[3:6], expected[6:7]]
    last = api.get("/sessions/", page_size=3)
    for _ in range(2):
        last = api.get("/sessions/", **dict(parse_qsl(urlsplit(last.json()["next"]).query)))
    backward = pages_from(api, last.json()["previous"], "previous")
    assert backward == [expected[3:6], expected[0:3]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"is_archived": "false"}, [0, 2, 4]),
        ({"is_archived": "true"}, [1, 3, 5]),
        ({"is_pinned": "true"}, [2, 3]),
        ({"is_pinned": "true", "is_archived": "false"}, [2]),
        ({"is_pinned": "false", "is_archived": "false"}, [0, 4]),
    ],
)
def test_pinned_and_archived_sessions_are_listed_for_themselves(
    api: Api, alice: Any, query: dict[str, str], expected: list[int]
) -> None:
    made = make_sessions(alice, 6)
    ChatSession.objects.filter(pk__in=made[1::2]).update(is_archived=True)
    ChatSession.objects.filter(pk__in=made[2:4]).update(is_pinned=True)
    wanted = [made[each] for each in expected]
    listed = api.get("/sessions/", **query).json()
    assert [row["id"] for row in listed["results"]] == wanted
    first = f"{ROOT}/sessions/?{urlencode({**query, 'page_size': 1})}"
    assert pages_from(api, first, "next") == [[each] for each in wanted]


def test_a_filter_that_is_neither_true_nor_false_is_refused(api: Api) -> None:
    value, message = field_errors(api.get("/sessions/", is_pinned="perhaps"))["is_pinned"]
    assert (value, message) == ("perhaps", "Must be a valid boolean.")


def test_a_session_that_becomes_active_while_pages_are_read_hides_no_other(
    api: Api, alice: Any
) -> None:
    expected = make_sessions(alice, 4)
    first = api.get("/sessions/", page_size=2).json()
    ChatSession.objects.filter(pk=expected[3]).update(last_active_at=timezone.now())
    query = dict(parse_qsl(urlsplit(first["next"]).query))
    second = api.get("/sessions/", **query).json()
    assert [row["id"] for row in second["results"]] == [expected[2]]


def test_the_list_costs_the_same_number_of_queries_for_one_session_and_for_thirty(
    api: Api, alice: Any
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert api.get("/sessions/").status_code == 200
        return len(captured)

    make_sessions(alice, 1)
    few = queries()
    make_sessions(alice, 29)
    assert queries() == few


@pytest.mark.parametrize(
    "cursor",
    [
        "nonsense",
        "cD1ub25zZW5zZQ==",
        "cD0yMDI2LTEzLTQ1",
        "bz0tMQ==",
        "cD0lMDA=",
        "好",
        "Y" * 100_000,
        "%%%",
        "cD0yMDI2LTAxLTAx",
        "cD0wMDAxLTAxLTAxVDAwOjAwOjAwJTJCMTA6MDA=",  # 0001-01-01T00:00:00+10:00
        "cD05OTk5LTEyLTMxVDIzOjU5OjU5LTEwOjAw",  # 9999-12-31T23:59:59-10:00
    ],
)
def test_a_cursor_of_ones_own_making_is_refused(api: Api, cursor: str) -> None:
    value, message = field_errors(api.get("/sessions/", cursor=cursor))["cursor"]
    assert value is not None
    assert message == "Take it from `next` or `previous` of an earlier page."


@pytest.mark.parametrize("path", ["/sessions/", "/preferences/", "/receipts/"])
@pytest.mark.parametrize("size", ["x", "0", "-1", "1.5", "101", "9" * 30, "\0"])
def test_a_size_that_is_none_is_refused(api: Api, path: str, size: str) -> None:
    value, message = field_errors(api.get(path, page_size=size))["page_size"]
    assert (value or "", bool(message)) == (size.replace("\0", ""), True)


def test_pages_are_never_longer_than_a_hundred(api: Api, alice: Any) -> None:
    make_sessions(alice, 101)
    assert len(api.get("/sessions/", page_size=100).json()["results"]) == 100


def test_a_format_in_the_address_is_ignored_and_one_in_the_header_heard(api: Api) -> None:
    assert api.get("/sessions/", format="x").status_code == 200
    refused = api.client.get(f"{ROOT}/sessions/", headers={"Accept": "image/png"})
    assert (refused.status_code, refused.json()["status"]) == (406, 406)


# --- Creating -------------------------------------------------------------------------------------


def test_a_new_session_has_the_default_assistant_and_no_title(api: Api, alice: Any) -> None:
    builders.assistant("other")
    builders.assistant("usual", is_default=True)
    response = api.post("/sessions/", {})
    assert response.status_code == 201
    made = ChatSession.objects.get()
    assert response.json()["id"] == str(made.pk)
    assert (made.user, made.tenant.slug, made.assistant.slug) == (alice, "default", "usual")
    assert (made.title, made.title_source) == ("", "auto")


def test_a_session_is_made_with_the_assistant_and_title_that_are_asked_for(api: Api) -> None:
    builders.assistant("usual", is_default=True)
    builders.assistant("other")
    made = api.post("/sessions/", {"assistant": "other", "title": " Plans\n for  2027 "}).json()
    assert made["assistant"]["slug"] == "other"
    assert (made["title"], made["title_source"]) == ("Plans for 2027", "user")


@pytest.mark.parametrize("which", ["unknown", "of another tenant", "inactive", "inactive endpoint"])
def test_an_assistant_that_is_not_offered_is_refused_and_nothing_is_made(
    api: Api, which: str
) -> None:
    builders.assistant("usual", is_default=True)
    if which == "of another tenant":
        builders.assistant("wanted", tenant=builders.tenant("acme"))
    elif which == "inactive":
        builders.assistant("wanted", is_active=False)
    elif which == "inactive endpoint":
        builders.assistant("wanted", endpoint=builders.endpoint(is_active=False))
    errors = field_errors(api.post("/sessions/", {"assistant": "wanted"}))
    assert errors == {"assistant": ("wanted", "Choose one of /api/v1/assistants/.")}
    assert not ChatSession.objects.exists()


def test_without_any_assistant_the_conflict_says_so(api: Api) -> None:
    response = api.post("/sessions/", {})
    assert (response.status_code, response.json()["code"]) == (409, "no_assistant")


def test_the_assistants_on_offer_are_listed_the_default_one_first(api: Api) -> None:
    builders.assistant("beta", name="Beta")
    builders.assistant("zeta", name="Zeta", is_default=True)
    builders.assistant("hidden", is_active=False)
    builders.assistant("theirs", tenant=builders.tenant("acme"))
    assert api.get("/assistants/").json() == {
        "results": [
            {"slug": "zeta", "name": "Zeta", "is_default": True},
            {"slug": "beta", "name": "Beta", "is_default": False},
        ]
    }


# --- Changing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "新标题 😄"),
        ("is_pinned", True),
        ("is_archived", True),
        ("memory_enabled", False),
        ("memory_enabled", None),
        ("max_messages", 2),
        ("max_messages", None),
        ("max_tokens", 500),
    ],
)
def test_what_may_be_changed_is_stored_and_told(
    api: Api, alice: Any, told: list[dict[str, Any]], field: str, value: Any
) -> None:
    chat_session = builders.chat_session(alice, memory_enabled=True, max_messages=7)
    response = api.patch(path(chat_session), {field: value})
    assert (response.status_code, response.json()[field]) == (200, value)
    chat_session.refresh_from_db()
    assert getattr(chat_session, field) == value
    (frame,) = told
    assert (frame["type"], frame["session"]) == ("session.updated", str(chat_session.pk))
    assert frame[field] == value


def test_a_title_by_hand_is_marked_as_such_and_an_empty_one_is_automatic_again(
    api: Api, alice: Any
) -> None:
    chat_session = builders.chat_session(alice)
    assert api.patch(path(chat_session), {"title": "Mine"}).json()["title_source"] == "user"
    again = api.patch(path(chat_session), {"title": "  "}).json()
    assert (again["title"], again["title_source"]) == ("", "auto")


def test_an_empty_change_changes_nothing(api: Api, alice: Any, told: list[dict[str, Any]]) -> None:
    chat_session = builders.chat_session(alice, title="Kept")
    assert api.patch(path(chat_session), {}).json()["title"] == "Kept"
    assert told == []


def test_a_change_writes_its_own_columns_and_leaves_a_running_turn_alone(
    api: Api, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn takes the session between the read and the write."""
    chat_session = builders.chat_session(alice)
    turn_id, read = uuid.uuid4(), events.session_updated

    def take_first(self: Any, *args: Any) -> ChatSession:
        found = original(self, *args)
        leases.take(chat_session.pk, turn_id, next_seq=9)
        return found

    from chat.api.base import Endpoint

    original = Endpoint.chat_session
    monkeypatch.setattr(Endpoint, "chat_session", take_first)
    assert api.patch(path(chat_session), {"title": "New"}).status_code == 200
    chat_session.refresh_from_db()
    assert (chat_session.title, chat_session.running_turn, chat_session.next_seq) == (
        "New",
        turn_id,
        9,
    )
    assert read is events.session_updated


@pytest.mark.parametrize(
    ("field", "value", "shown", "message"),
    [
        ("title", "x" * 201, "x" * 79 + "…", "Ensure this field has no more than 200 characters."),
        ("title", ["a"], '["a"]', "Not a valid string."),
        ("title", None, None, "This field may not be null."),
        ("is_pinned", "perhaps", "perhaps", "Must be a valid boolean."),
        ("is_pinned", None, None, "This field may not be null."),
        ("max_messages", 0, "0", "Ensure this value is greater than or equal to 1."),
        ("max_messages", -5, "-5", "Ensure this value is greater than or equal to 1."),
        ("max_messages", 10001, "10001", "Ensure this value is less than or equal to 10000."),
        ("max_messages", "many", "many", "A valid integer is required."),
        ("max_messages", 1.5, "1.5", "A valid integer is required."),
        (
            "max_tokens",
            2**31,
            "2147483648",
            "Ensure this value is less than or equal to 2147483647.",
        ),
        ("max_tokens", {}, "{}", "A valid integer is required."),
        ("memory_enabled", "\x00", "", "Must be a valid boolean."),
    ],
)
def test_a_wrong_value_is_named_with_what_to_do_and_nothing_is_changed(
    api: Api, alice: Any, field: str, value: Any, shown: str | None, message: str
) -> None:
    chat_session = builders.chat_session(alice, title="Kept")
    body = {field: value, **({"title": "Changed"} if field != "title" else {})}
    assert field_errors(api.patch(path(chat_session), body)) == {field: (shown, message)}
    chat_session.refresh_from_db()
    assert chat_session.title == "Kept"


@pytest.mark.parametrize("field", ["id", "user", "is_held", "running_turn", "memory_epoch", "no"])
def test_a_field_that_may_not_be_changed_is_refused(api: Api, alice: Any, field: str) -> None:
    chat_session = builders.chat_session(alice)
    _, message = field_errors(api.patch(path(chat_session), {field: 1}))[field]
    assert message.startswith("There is no such field; there are: title, is_pinned,")


# --- Anyone's text --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "stored", "is_cleaned"),
    [
        ("a\x00b", "ab", True),
        ("lone \ud800 half", "lone \ufffd half", True),
        ("pair \ud83d\ude04 whole", "pair 😄 whole", False),
        ("שלום عالم", "שלום عالم", False),
        ("<script>alert(1)</script>", "<script>alert(1)</script>", False),
        ("{{ 7 * 7 }}", "{{ 7 * 7 }}", False),
    ],
)
def test_titles_hold_anyones_text(
    api: Api, alice: Any, sent: str, stored: str, is_cleaned: bool
) -> None:
    chat_session = builders.chat_session(alice)
    answer = api.patch(path(chat_session), {"title": sent}).json()
    assert answer["title"] == stored
    assert answer.get("cleaned", []) == (["title"] if is_cleaned else [])
    assert api.get(path(chat_session)).json()["title"] == stored


def test_a_title_of_a_hundred_thousand_characters_is_refused_without_being_repeated(
    api: Api, alice: Any
) -> None:
    response = api.patch(path(builders.chat_session(alice)), {"title": "字" * 100_000})
    value, message = field_errors(response)["title"]
    assert value == "字" * 79 + "…"
    assert message == "Ensure this field has no more than 200 characters."
    assert len(response.content) < 2000


def test_a_title_of_nul_alone_is_empty(api: Api, alice: Any) -> None:
    chat_session = builders.chat_session(alice, title="Old")
    answer = api.patch(path(chat_session), {"title": "\x00"}).json()
    assert (answer["title"], answer["cleaned"]) == ("", ["title"])


# --- Deleting -------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_deleted_session_is_gone_for_good(
    api: Api, alice: Any, told: list[dict[str, Any]]
) -> None:
    chat_session, other = builders.chat_session(alice), builders.chat_session(alice)
    builders.exchange(chat_session)
    response = api.delete(path(chat_session))
    receipt = response.json()["receipt"]
    assert (response.status_code, receipt["kind"], receipt["by"]) == (200, "session", "owner")
    assert receipt["counts"] == {"messages": 2, "sessions": 1, "turns": 1}
    assert (receipt["is_complete"], receipt["pending"]) == (True, 0)
    assert api.get(path(chat_session)).status_code == 404
    assert api.delete(path(chat_session)).status_code == 404
    assert [row["id"] for row in api.get("/sessions/").json()["results"]] == [str(other.pk)]
    assert not ChatMessage.objects.exists()
    assert SessionTombstone.objects.get().pk == chat_session.pk
    event = AuditEvent.objects.get()
    assert (event.actor, event.action, event.ip) == (alice, "session.delete", "127.0.0.1")
    assert told == [{"type": "session.deleted", "session": str(chat_session.pk)}]


@pytest.mark.parametrize(
    ("address", "kept"),
    [("2001:db8::1", "2001:db8::1"), ("", None), ("unix:", None), ("192.0.2.1:443", None)],
)
def test_whatever_a_proxy_says_of_the_address_deletion_works(
    api: Api, alice: Any, address: str, kept: str | None
) -> None:
    chat_session = builders.chat_session(alice)
    api.client.defaults["REMOTE_ADDR"] = address
    assert api.delete(path(chat_session)).status_code == 200
    assert AuditEvent.objects.get().ip == kept


# --- Clearing memory ------------------------------------------------------------------------------


def preference(chat_session: ChatSession, key: str) -> UserPreference:
    return preferences.remember(
        chat_session.tenant_id,
        chat_session.user_id,
        "all",
        key,
        "briefly",
        origin="chat",
        source_session=chat_session.pk,
        source_seq=1,
    )


def test_the_dialog_lists_the_preferences_that_came_from_the_session(api: Api, alice: Any) -> None:
    chat_session = builders.chat_session(alice)
    mine = preference(chat_session, "style")
    preference(builders.chat_session(alice), "elsewhere")
    listed = api.get(path(chat_session, "clear-memory/")).json()["preferences"]
    assert [(row["id"], row["key"], row["source"]) for row in listed] == [
        (mine.pk, "style", {"session": str(chat_session.pk), "seq": 1})
    ]


def test_clearing_answers_with_the_line_and_what_stayed(api: Api, alice: Any) -> None:
    chat_session = builders.chat_session(alice)
    builders.exchanges(chat_session, 2)
    kept, gone = preference(chat_session, "style"), preference(chat_session, "tone")
    response = api.post(path(chat_session, "clear-memory/"), {"delete_preferences": [gone.pk]})
    answer = response.json()
    assert answer["memory_starts_after"] == 4
    assert [row["id"] for row in answer["preferences"]] == [kept.pk]
    assert api.get(path(chat_session)).json()["memory_starts_after"] == 4
    assert not UserPreference.objects.filter(pk=gone.pk).exists()


def test_a_preference_from_elsewhere_is_refused_and_memory_stays(api: Api, alice: Any) -> None:
    chat_session = builders.chat_session(alice)
    foreign = preference(builders.chat_session(), "style")
    response = api.post(path(chat_session, "clear-memory/"), {"delete_preferences": [foreign.pk]})
    value, _ = field_errors(response)["delete_preferences"]
    assert value == str(foreign.pk)
    chat_session.refresh_from_db()
    assert chat_session.memory_epoch == 0
    assert UserPreference.objects.filter(pk=foreign.pk).exists()


@pytest.mark.parametrize("ids", ["all", [0], ["x"], [2**70], {"a": 1}, [None]])
def test_ids_that_are_none_are_refused(api: Api, alice: Any, ids: Any) -> None:
    chat_session = builders.chat_session(alice)
    response = api.post(path(chat_session, "clear-memory/"), {"delete_preferences": ids})
    assert "delete_preferences" in field_errors(response)


def test_a_turn_that_cannot_be_stopped_is_a_conflict(
    api: Api, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_session = builders.chat_session(alice)
    asked = builders.message(chat_session)
    turn = builders.turn(chat_session, asked, status=ChatTurn.Status.RUNNING)
    leases.take(chat_session.pk, turn.pk)
    monkeypatch.setattr(leases, "wait_idle", lambda session_id, timeout: leases.holder(session_id))
    response = api.post(path(chat_session, "clear-memory/"), {})
    assert (response.status_code, response.json()["code"]) == (409, "turn_in_progress")
    assert response.json()["turn"] == str(turn.pk)


# --- Limits ---------------------------------------------------------------------------------------


def test_more_requests_than_allowed_are_refused_for_that_person_alone(
    api: Api, settings: LazySettings
) -> None:
    settings.CHAT_REQUESTS_PER_MINUTE = 3
    statuses = [api.get("/sessions/").status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    refused = api.get("/sessions/")
    assert refused.json()["code"] == "throttled"
    assert 0 < int(refused["Retry-After"]) <= 60
    assert Api(builders.user()).get("/sessions/").status_code == 200


def test_nobody_is_held_up_while_the_cache_is_away(
    api: Api, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any, **options: Any) -> None:
        raise RedisConnectionError("connection refused")

    settings.CHAT_REQUESTS_PER_MINUTE = 1
    monkeypatch.setattr(RequestThrottle.cache, "get", away)
    assert [api.get("/sessions/").status_code for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize(
    ("persistence", "asked", "expected"),
    [(True, None, False), (True, True, True), (False, None, True), (False, False, True)],
)
def test_a_session_is_temporary_when_asked_for_or_when_nothing_may_persist(
    api: Api, settings: LazySettings, persistence: bool, asked: bool | None, expected: bool
) -> None:
    builders.assistant()
    settings.CHAT_MEMORY_PERSISTENCE_ENABLED = persistence
    made = api.post("/sessions/", {} if asked is None else {"is_temporary": asked}).json()
    assert made["is_temporary"] is expected
    assert ChatSession.objects.get(pk=made["id"]).is_temporary is expected
