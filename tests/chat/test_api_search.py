"""Search over REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection

from chat.models import ChatMessage, ChatSession
from chat.search import messages
from tests import builders
from tests.chat.api import Api, field_errors

pytestmark = pytest.mark.django_db
needs_an_index = pytest.mark.skipif(
    connection.vendor == "mysql", reason="MariaDB has no index of words"
)


@pytest.fixture
def alice() -> Any:
    builders.tenant("default")
    return builders.user("alice")


@pytest.fixture
def api(alice: Any) -> Api:
    return Api(alice)


@pytest.fixture
def chat_session(alice: Any) -> ChatSession:
    made = builders.chat_session(alice, title="Trip")
    builders.exchange(made, "Where do we stay in Évora?", "In a guesthouse, behind the temple.")
    messages.index_session(made.pk)
    return made


def test_a_result_names_its_session_its_message_and_its_place(
    api: Api, chat_session: ChatSession
) -> None:
    response = api.get("/search/", q="guesthouses", limit=1)
    answered = ChatMessage.objects.get(seq=2)
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    assert response.json() == {
        "results": [
            {
                "session": str(chat_session.pk),
                "title": "Trip",
                "message": str(answered.pk),
                "seq": 2,
                "role": "assistant",
                "at": answered.created_at.isoformat(),
                "snippet": [
                    {"text": "In a ", "hit": False},
                    {"text": "guesthouse", "hit": True},
                    {"text": ", behind the temple.", "hit": False},
                ],
                "found_by": "words",
                "near": None,
            }
        ],
        "notice": messages.notice(),
    }


def test_the_place_of_a_result_is_a_page_of_its_session(
    api: Api, chat_session: ChatSession
) -> None:
    builders.exchanges(chat_session, 40)
    (first, *_) = api.get("/search/", q="guesthouse").json()["results"]
    page = api.get(f"/sessions/{first['session']}/messages/", around=first["seq"], limit=4).json()
    assert first["message"] in {each["id"] for each in page["results"]}


def test_archived_sessions_and_other_branches_are_searched_too(
    api: Api, chat_session: ChatSession
) -> None:
    ChatMessage.objects.filter(seq=2).update(is_on_path=False)
    ChatSession.objects.update(is_archived=True)
    assert 2 in {each["seq"] for each in api.get("/search/", q="guesthouse").json()["results"]}


def test_a_search_can_be_kept_to_one_session(
    api: Api, alice: Any, chat_session: ChatSession
) -> None:
    other = builders.chat_session(alice)
    builders.message(other, "user", "Another guesthouse")
    messages.index_session(other.pk)
    found = api.get("/search/", q="guesthouse", session=str(other.pk)).json()["results"]
    assert [(each["session"], each["seq"]) for each in found] == [(str(other.pk), 1)]


@pytest.mark.parametrize("question", ["", " ", "😄", "the", "_"])
def test_a_question_without_words_has_no_results(
    api: Api, chat_session: ChatSession, question: str
) -> None:
    response = api.get("/search/", q=question)
    assert (response.status_code, response.json()["results"]) == (200, [])


def test_nul_and_lone_surrogates_are_taken_out_of_a_question(
    api: Api, chat_session: ChatSession
) -> None:
    response = api.client.get("/api/v1/search/?q=guest%00house%ED%A0%BD")
    assert response.status_code == 200
    assert 2 in {each["seq"] for each in response.json()["results"]}


def test_a_wrong_value_is_named(api: Api) -> None:
    assert set(field_errors(api.get("/search/"))) == {"q"}
    wrong = api.get("/search/", q="x", limit="51", session="y")
    assert set(field_errors(wrong)) == {"limit", "session"}
    assert field_errors(wrong)["limit"][0] == "51"


def test_nobody_searches_without_signing_in() -> None:
    assert Api(None).get("/search/", q="x").status_code == 401


def test_searches_count_as_requests(api: Api, settings: LazySettings) -> None:
    settings.CHAT_REQUESTS_PER_MINUTE = 2
    statuses = [api.get("/search/", q="x").status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_who_has_messages_and_no_index_is_told_so(api: Api, alice: Any) -> None:
    builders.message(builders.chat_session(alice), "user", "a plan")
    response = api.get("/search/", q="plan").json()
    assert response == {"results": [], "notice": messages.NOT_INDEXED}


def test_a_search_asks_as_much_for_many_results_as_for_few(
    api: Api, chat_session: ChatSession, django_assert_max_num_queries: Any
) -> None:
    for _ in range(30):
        builders.message(chat_session, "user", "guesthouse")
    messages.index_session(chat_session.pk)
    with django_assert_max_num_queries(12):
        results = api.get("/search/", q="guesthouse", limit=30).json()["results"]
    assert len(results) == 30 or connection.vendor == "mysql"


@needs_an_index
def test_what_is_found_by_its_neighbours_words_says_so(api: Api, chat_session: ChatSession) -> None:
    first, second = api.get("/search/", q="guesthouse").json()["results"]
    assert (first["seq"], first["found_by"], first["near"]) == (2, "words", None)
    assert (second["seq"], second["found_by"]) == (1, "near")
    assert (second["near"]["seq"], second["near"]["role"]) == (2, "assistant")
    assert {"text": "guesthouse", "hit": True} in second["near"]["snippet"]


@needs_an_index
def test_what_is_found_by_its_day_says_so(api: Api, chat_session: ChatSession) -> None:
    said = ChatMessage.objects.get(seq=1).created_at
    found = api.get("/search/", q=f"{said:%B}").json()["results"]
    assert [(each["found_by"], each["near"]) for each in found] == [("day", None)] * 2
