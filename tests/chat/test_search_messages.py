"""The index of messages: what is written into it, what leaves it, and what is found."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings
from django.db import connection
from django.utils import timezone

from chat import leases, llm, transfer
from chat.models import ChatMessage, ChatSession, ChatTurn, SearchEntry
from chat.search import asking, messages, postgres
from chat.search.messages import Found
from chat.turns import branches
from memory.messages import Message, ToolCall
from tests import builders
from tests.fakes import FakeEndpoint, answer, breaks_off
from tests.orders import again, run_order, send, session_at

needs_index = pytest.mark.skipif(
    "mysql" in connection.vendor, reason="MariaDB has no index of words"
)
WORDS = "chat_search_words" if connection.vendor == "sqlite" else "chat_searchentry"


@pytest.fixture
def chat_session(db: None) -> ChatSession:
    return builders.chat_session()


def say(chat_session: ChatSession, *texts: str) -> list[ChatMessage]:
    """Messages by the person and the assistant in turn, indexed one by one as turns do it."""
    made = []
    for number, text in enumerate(texts):
        role = "assistant" if number % 2 else "user"
        parent = chat_session.head
        made.append(builders.message(chat_session, role, text))
        index(made[-1], parent)
    return made


def index(message: ChatMessage, parent: ChatMessage | None = None) -> None:
    owner = message.chat_session
    messages.index(message, parent, tenant_id=owner.tenant_id, user_id=owner.user_id)


def find(chat_session: ChatSession, question: str, **options: Any) -> list[Found]:
    return messages.find(
        tenant_id=chat_session.tenant_id,
        user_id=chat_session.user_id,
        question=question,
        **options,
    )


def seqs(found: Sequence[Found]) -> list[int]:
    return [each.seq for each in found]


def stored_words() -> str:
    """Everything that the engine holds, as text."""
    with connection.cursor() as cursor:
        columns = "own, previous, next, day, owner" if connection.vendor == "sqlite" else "words"
        cursor.execute(f"SELECT {columns} FROM {WORDS}")
        return repr(cursor.fetchall())


# --- What is found --------------------------------------------------------------------------------


def test_a_message_is_found_with_all_that_a_page_needs(chat_session: ChatSession) -> None:
    ChatSession.objects.filter(pk=chat_session.pk).update(title="Trip")
    _, answered = say(chat_session, "Where do we stay?", "In a guesthouse near Évora.")
    (found,) = find(chat_session, "guesthouses", limit=1)
    assert (found.session_id, found.message_id, found.seq, found.role, found.title, found.text) == (
        chat_session.pk,
        answered.pk,
        2,
        "assistant",
        "Trip",
        "In a guesthouse near Évora.",
    )
    assert found.at == answered.created_at
    assert found.score > 0


@needs_index
def test_an_answer_is_found_by_the_question_before_it_and_comes_after_what_says_it_itself(
    chat_session: ChatSession,
) -> None:
    say(chat_session, "What is the dog called?", "Biscuit.", "And who walks Biscuit?", "Jonas.")
    assert seqs(find(chat_session, "dog called")) == [1, 2]
    assert seqs(find(chat_session, "Biscuit")) == [3, 2, 4, 1]


@needs_index
def test_a_word_that_few_messages_have_counts_more(chat_session: ChatSession) -> None:
    say(chat_session, "order one", "order two", "order three", "order zebra", "order five")
    assert seqs(find(chat_session, "order zebra"))[0] == 4


@needs_index
def test_a_rare_word_is_found_among_many_messages(chat_session: ChatSession) -> None:
    for number in range(300):
        builders.message(chat_session, "user", f"A usual remark, number {number}.")
    builders.message(chat_session, "user", "Someone said quokka once.")
    messages.index_session(chat_session.pk)
    assert seqs(find(chat_session, "quokka", limit=1)) == [301]
    assert seqs(find(chat_session, "usual quokka remark", limit=1)) == [301]


def test_every_message_with_a_chinese_word_of_one_or_two_signs_is_found(
    chat_session: ChatSession,
) -> None:
    for number in range(40):
        text = f"第{number}天在北京吃面" if number % 4 == 0 else f"第{number}天在上海喝茶"
        builders.message(chat_session, "user", text)
    messages.index_session(chat_session.pk)
    expected = set(range(1, 41, 4))
    own = {"北京": "北京", "面": "面", "吃面": "吃面", "京": "京"}
    for question, part in own.items():
        found = find(chat_session, question, limit=100)
        assert {each.seq for each in found if part in each.text} == expected, question


@needs_index
def test_scores_are_the_same_figures_on_every_database(chat_session: ChatSession) -> None:
    at = datetime(2025, 5, 4, 12, tzinfo=UTC)  # a Sunday
    say(
        chat_session,
        "我想订一家北京的酒店",
        "好的，推荐王府井附近的三家。",
        "Which databases did we deploy on Sunday?",
        "PostgreSQL, and it's 'SQLite' on laptops; İstanbul runs naïve ﬁles №5.",
    )
    ChatMessage.objects.update(created_at=at)
    messages.index_session(chat_session.pk)
    for question, expected in FIGURES.items():
        found = [(each.seq, round(each.score, 4)) for each in find(chat_session, question)]
        assert found == expected, question


FIGURES: dict[str, list[tuple[int, float]]] = {
    "deployed database": [(4, 0.9021), (3, 0.7797), (2, 0.3453)],
    "sunday": [(4, 0.1444), (3, 0.1377), (2, 0.1152), (1, 0.091)],
    "naïve": [(4, 0.6544), (3, 0.1804)],
    "istanbul files": [(4, 1.3088), (3, 0.3608)],
    "王府井 sqlite": [(4, 0.7156), (3, 0.7039), (2, 0.6636), (1, 0.1567)],
    "2025": [],
    "4 May 2025": [(4, 0.273), (3, 0.273), (2, 0.273), (1, 0.273)],
}


@needs_index
def test_a_day_is_found_by_its_date_and_no_single_number_is_taken_for_one(
    chat_session: ChatSession,
) -> None:
    first, second = say(chat_session, "Soup.", "Fish.")
    ChatMessage.objects.filter(pk=first.pk).update(created_at=datetime(2025, 5, 7, tzinfo=UTC))
    ChatMessage.objects.filter(pk=second.pk).update(created_at=datetime(2025, 6, 8, tzinfo=UTC))
    messages.index_session(chat_session.pk)
    assert seqs(find(chat_session, "What did I say on 7 May?")) == [1]
    assert seqs(find(chat_session, "2025-06-08"))[0] == 2
    assert seqs(find(chat_session, "星期天")) == [2]
    assert find(chat_session, "7") == []


@pytest.mark.parametrize(
    "question",
    ["", "   ", "\x00", "😄🎉", "!?…", "what is the", "请问", "你", "\ud800", "_ __"],
)
def test_a_question_without_a_word_that_counts_finds_nothing_and_asks_nothing(
    chat_session: ChatSession, question: str, django_assert_num_queries: Any
) -> None:
    say(chat_session, "What is the plan? 你是谁 1 😄")
    with django_assert_num_queries(0):
        assert find(chat_session, question) == []


@pytest.mark.parametrize(
    "question",
    [
        'plan"',
        "'plan' OR '1'='1",
        "plan'); DROP TABLE chat_searchentry; --",
        'own : plan* ^ + - ( { } NEAR("a b", 3)',
        "NOT plan AND OR",
        "plan & | ! <-> :* \\",
        "plan} UNION SELECT password FROM auth_user {",
        "plan\x00\ud83d",
        "plan %s %% %(x)s {0} _",
        "plan " * 20_000,
        " ".join(f"word{n}" for n in range(150)) + " plan",
    ],
)
def test_whatever_stands_in_a_question_are_words(chat_session: ChatSession, question: str) -> None:
    say(chat_session, "The plan.")
    builders.message(builders.chat_session(), "user", "Somebody else's plan.")
    found = find(chat_session, question)
    assert messages.is_supported() is False or [each.text for each in found] == ["The plan."]
    assert {each.text for each in found} <= {"The plan."}


def test_any_text_can_be_indexed(chat_session: ChatSession) -> None:
    texts = ["a" * 1_000_000, "啊" * 200_000, "x y " * 100_000, "'\"\\ : & | ! ()", "नमस्ते दुनिया"]
    texts.append(" ".join(f"w{n}" for n in range(120_000)))
    texts.append("".join(chr(0x4E00 + n % 20_000) for n in range(150_000)))
    say(chat_session, *texts)
    assert SearchEntry.objects.count() == len(texts)
    assert seqs(find(chat_session, "w77", limit=1)) == [6]
    assert seqs(find(chat_session, "दुनिया", limit=1)) == [5]


def test_only_as_many_are_found_as_are_asked_for(chat_session: ChatSession) -> None:
    say(chat_session, *["same words"] * 6)
    assert len(find(chat_session, "words", limit=4)) == 4
    assert find(chat_session, "words", limit=0) == []


def test_a_search_in_one_session_finds_nothing_of_another(chat_session: ChatSession) -> None:
    other = builders.chat_session(chat_session.user)
    say(chat_session, "A plan.")
    say(other, "Another plan.")
    assert [each.text for each in find(chat_session, "plan", session_id=other.pk)] == [
        "Another plan."
    ]
    assert len(find(chat_session, "plan")) == 2
    assert find(chat_session, "plan", session_id=uuid.uuid4()) == []


# --- Where messages stand -------------------------------------------------------------------------


def test_people_find_every_branch_and_archived_sessions(chat_session: ChatSession) -> None:
    first, _ = say(chat_session, "Tell me of herons.", "They wade.")
    other = builders.message(chat_session, "assistant", "Herons stand still.", parent=first)
    index(other, first)
    ChatMessage.objects.filter(seq=2).update(is_on_path=False)
    ChatSession.objects.update(is_archived=True)
    assert set(seqs(find(chat_session, "herons"))) >= {1, 3}
    assert 2 in seqs(find(chat_session, "wade"))


@needs_index
def test_what_follows_a_message_on_any_branch_is_how_it_is_found(
    chat_session: ChatSession,
) -> None:
    first, _ = say(chat_session, "First question.", "An answer about herons.")
    index(builders.message(chat_session, "assistant", "One about egrets.", parent=first), first)
    assert 1 in seqs(find(chat_session, "herons"))
    assert 1 in seqs(find(chat_session, "egrets"))


@needs_index
def test_calls_and_results_of_tools_are_passed_over(chat_session: ChatSession) -> None:
    (asked,) = say(chat_session, "How warm is it in Turku?")
    calling = builders.message(
        chat_session, "assistant", None, tool_calls=[{"id": "1", "name": "w", "arguments": "{}"}]
    )
    result = builders.message(chat_session, "tool", "Secret reading", tool_call_id="1")
    index(calling, asked)
    index(result, calling)
    index(builders.message(chat_session, "assistant", "Nineteen degrees."), result)
    assert seqs(find(chat_session, "Turku")) == [1, 4]
    assert seqs(find(chat_session, "nineteen")) == [4, 1]
    assert find(chat_session, "secret") == []
    assert SearchEntry.objects.count() == 2


def test_system_messages_and_empty_ones_have_no_entry(chat_session: ChatSession) -> None:
    for role, text in (("system", "Rules"), ("user", ""), ("user", " \n "), ("assistant", None)):
        index(builders.message(chat_session, role, text))
    assert SearchEntry.objects.count() == 0


def test_indexing_a_message_again_replaces_what_is_known_of_it(chat_session: ChatSession) -> None:
    (said,) = say(chat_session, "before")
    ChatMessage.objects.filter(pk=said.pk).update(content="afterwards")
    said.refresh_from_db()
    index(said)
    assert SearchEntry.objects.count() == 1
    assert find(chat_session, "before") == []
    assert seqs(find(chat_session, "afterwards")) == [1]


def test_imported_messages_are_found(chat_session: ChatSession) -> None:
    ChatSession.objects.update(title="Old")
    say(chat_session, "Hello", "Hi")
    call = ToolCall("1", "lookup", "{}")
    imported = [
        Message.user("What about lighthouses?"),
        Message.assistant("", tool_calls=(call,)),
        Message.tool("1", "raw result"),
        Message.assistant("There are nine."),
    ]
    transfer.import_messages(chat_session.pk, imported)
    assert 3 in seqs(find(chat_session, "lighthouses"))
    if connection.vendor != "mysql":
        assert seqs(find(chat_session, "lighthouses")) == [3, 6, 2]
        assert find(chat_session, "raw") == []


# --- Titles ---------------------------------------------------------------------------------------


def test_a_session_is_found_by_its_title_and_by_a_new_one_at_once(
    chat_session: ChatSession,
) -> None:
    other = builders.chat_session(chat_session.user, title="Boats")
    say(chat_session, "A question", "An answer")
    say(other, "Something about sails")
    ChatSession.objects.filter(pk=chat_session.pk).update(title="Plans for the harbour")
    assert [(f.session_id, f.seq) for f in find(chat_session, "harbour plan")] == [
        (chat_session.pk, 1)
    ]
    ChatSession.objects.filter(pk=chat_session.pk).update(title="Quiet lagoon")
    assert find(chat_session, "harbour") == []
    assert [f.title for f in find(chat_session, "lagoon")] == ["Quiet lagoon"]
    assert find(chat_session, "lagoon", for_model=True) == []
    assert find(chat_session, "boats")[0].session_id == other.pk


def test_nobody_finds_a_session_by_somebody_elses_title(chat_session: ChatSession) -> None:
    builders.chat_session(title="Harbour")
    foreign = builders.chat_session(chat_session.user, tenant=builders.tenant(), title="Harbour")
    say(foreign, "Something")
    assert find(chat_session, "harbour") == []


# --- For a model ----------------------------------------------------------------------------------


def test_a_model_is_told_of_the_chosen_branch_after_the_line_alone(
    chat_session: ChatSession, settings: LazySettings
) -> None:
    say(chat_session, "herons one", "herons two", "herons three", "herons four", "herons five")
    ChatSession.objects.update(memory_starts_after=2)
    ChatMessage.objects.filter(seq=4).update(is_on_path=False)
    ChatMessage.objects.filter(seq=5).update(redacted_at=timezone.now())
    assert seqs(find(chat_session, "herons", for_model=True)) == [3]
    ChatSession.objects.update(memory_enabled=False)
    assert find(chat_session, "herons", for_model=True) == []
    ChatSession.objects.update(memory_enabled=None)
    assert seqs(find(chat_session, "herons", for_model=True)) == [3]
    chat_session.assistant.memory_enabled = False
    chat_session.assistant.save()
    assert find(chat_session, "herons", for_model=True) == []
    ChatSession.objects.update(memory_enabled=True)
    assert seqs(find(chat_session, "herons", for_model=True)) == [3]
    settings.CHAT_MEMORY_ENABLED = False
    assert find(chat_session, "herons", for_model=True) == []


def test_another_branch_is_found_by_the_model_once_it_is_chosen(chat_session: ChatSession) -> None:
    first, second = say(chat_session, "Tell me of herons.", "Herons wade.")
    third = builders.message(chat_session, "assistant", "Herons stand still.", parent=first)
    index(third, first)
    branches.select(chat_session.pk, second.pk)
    assert 3 not in seqs(find(chat_session, "herons", for_model=True))
    branches.select(chat_session.pk, third.pk)
    assert {1, 3} == set(seqs(find(chat_session, "herons", for_model=True)))


# --- What leaves ----------------------------------------------------------------------------------


@needs_index
def test_a_removed_message_leaves_no_word_in_its_neighbours(chat_session: ChatSession) -> None:
    first, second, third = say(chat_session, "Alpha", "Bravo", "Charlie")
    assert messages.remove_messages([second.pk]) == 1
    assert "bravo" not in stored_words()
    assert seqs(find(chat_session, "alpha")) == [1, 3]
    assert seqs(find(chat_session, "charlie")) == [3, 1]
    assert messages.remove_messages([first.pk, third.pk]) == 2
    assert SearchEntry.objects.count() == 0


@needs_index
def test_a_removed_pair_leaves_what_stood_around_it_side_by_side(
    chat_session: ChatSession,
) -> None:
    _, second, third, _ = say(chat_session, "Alpha", "Bravo", "Charlie", "Delta")
    messages.remove_messages([second.pk, third.pk])
    assert "bravo" not in stored_words()
    assert "charli" not in stored_words()
    assert seqs(find(chat_session, "alpha")) == [1, 4]


def test_a_removed_session_is_gone_and_others_stay(chat_session: ChatSession) -> None:
    other = builders.chat_session(chat_session.user)
    say(chat_session, "Alpha", "Bravo")
    say(other, "Alpha too")
    assert messages.remove_session(chat_session.pk) == 2
    assert [each.session_id for each in find(chat_session, "alpha bravo")] in ([other.pk], [])
    if connection.vendor != "mysql":
        assert [each.session_id for each in find(chat_session, "alpha")] == [other.pk]
        assert "bravo" not in stored_words()


@needs_index
def test_however_a_message_goes_its_words_go_too(chat_session: ChatSession) -> None:
    say(chat_session, "Alpha", "Bravo")
    assert "alpha" in stored_words()
    ChatMessage.objects.all().delete()
    assert stored_words() == "[]"


# --- Turns ----------------------------------------------------------------------------------------


@pytest.fixture
async def _clients() -> Any:
    yield
    await llm.aclose()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_clients")
async def test_a_turn_indexes_its_question_at_once_and_its_answer_at_the_end(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    fake_endpoint.replies(answer("Herons", " wade."), answer("Herons stand still."))
    turn = await run_order(send(chat_session, "What do herons do?"))
    search = sync_to_async(find)
    assert sorted(seqs(await search(chat_session, "herons"))) == [1, 2]
    await run_order(again("regenerate", turn))
    assert sorted(seqs(await search(chat_session, "herons"))) == [1, 2, 3]
    assert sorted(seqs(await search(chat_session, "herons", for_model=True))) == [1, 3]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_clients")
async def test_an_answer_that_broke_off_is_found_and_a_temporary_one_never(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    hidden = await sync_to_async(session_at)(fake_endpoint, chat_session.user, is_temporary=True)
    fake_endpoint.replies(breaks_off("Herons", " wade"), answer("Herons are secret."))
    await run_order(send(chat_session, "First?"))
    await run_order(send(hidden, "Where are the herons?"))
    found = await sync_to_async(find)(chat_session, "herons")
    assert {each.session_id for each in found} == {chat_session.pk}
    assert 2 in seqs(found)
    assert not await SearchEntry.objects.filter(chat_session=hidden).aexists()


def test_what_a_dead_process_stored_of_an_answer_is_indexed_when_its_turn_is_ended(
    chat_session: ChatSession,
) -> None:
    (asked,) = say(chat_session, "What do herons do?")
    turn = builders.turn(chat_session, asked, status=ChatTurn.Status.RUNNING)
    builders.message(chat_session, "assistant", "Herons w", turn=turn, is_partial=True)
    ChatSession.objects.update(running_turn=turn.pk, lease_owner="gone")
    messages.index_session(chat_session.pk)
    assert 2 not in seqs(find(chat_session, "herons"))
    assert leases.settle(chat_session.pk, leases.Holder(turn.pk, "gone", is_expired=False))
    assert 2 in seqs(find(chat_session, "herons"))


# --- Staff ----------------------------------------------------------------------------------------


def test_staff_find_what_was_said_in_their_tenants(chat_session: ChatSession) -> None:
    theirs = builders.chat_session(tenant=builders.tenant("theirs"))
    say(chat_session, "herons here")
    say(theirs, "herons there")
    everywhere = messages.find_for_staff(tenants=None, question="herons")
    assert {each.session_id for each in everywhere} == {chat_session.pk, theirs.pk}
    tenants = type(theirs.tenant).objects.filter(pk=theirs.tenant_id)
    assert [
        each.session_id for each in messages.find_for_staff(tenants=tenants, question="herons")
    ] == [theirs.pk]
    assert messages.find_for_staff(tenants=tenants.none(), question="herons") == []


@needs_index
def test_staff_find_a_rare_word_of_long_ago_and_of_a_common_one_the_newest(
    chat_session: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST_OF_EVERYBODY", 3)
    monkeypatch.setattr(postgres, "RECENT", 3)
    say(chat_session, "quokka", *["usual"] * 10)
    rare = messages.find_for_staff(tenants=None, question="quokka")
    assert seqs(rare) == [1, 2]
    common = messages.find_for_staff(tenants=None, question="usual")
    assert {9, 10, 11} <= set(seqs(common)) <= {8, 9, 10, 11}
    assert seqs(messages.find_for_staff(tenants=None, question="usual quokka")) == [1, 2]


def test_a_database_without_an_index_says_so(chat_session: ChatSession) -> None:
    assert messages.is_supported() == (connection.vendor in ("sqlite", "postgresql"))
    assert (messages.notice() is None) == messages.is_supported()
