"""Titles: made by the model from the first whole answer, and never against a person's own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings

from chat import dues, llm, retention
from chat.follow_ups import prompts
from chat.follow_ups.answers import Rejected
from chat.follow_ups.refusals import is_refusal
from chat.follow_ups.titles import LENGTH, clean_title
from chat.models import Assistant, ChatMessage, ChatSession, ModelCall, ModelEndpoint
from tests import builders
from tests.fakes import FakeEndpoint, Reply, answer, failure, tool_call
from tests.follow_ups import Meanwhile, again, asked_last, calls, due_rows, follow
from tests.orders import again as order_again
from tests.orders import run_order, session_at

pytestmark = pytest.mark.django_db(transaction=True)
FIRST_LINE = "Where do we spend our holidays?"


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    made = session_at(fake_endpoint, title=FIRST_LINE)
    builders.exchange(made, FIRST_LINE, "In the mountains.")
    return made


async def title_of(chat_session: ChatSession) -> tuple[str, str]:
    await chat_session.arefresh_from_db()
    return chat_session.title, chat_session.title_source


async def test_the_first_whole_answer_gets_a_title_and_everybody_is_told(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames: list[dict[str, object]] = []

    async def publish(session_id: object, frame: dict[str, object]) -> None:
        frames.append(frame)

    monkeypatch.setattr("chat.events.publish", publish)
    fake_endpoint.replies(answer('"Holidays in the mountains."', usage=(50, 10, 5)))
    assert await follow(chat_session, "title") == {"done": 1, "failed": 0, "given back": 0}
    assert await title_of(chat_session) == ("Holidays in the mountains", "model")
    assert frames == [
        {
            "type": "session.updated",
            "session": str(chat_session.pk),
            "title": "Holidays in the mountains",
        }
    ]
    assert await sync_to_async(due_rows)() == []


async def test_the_request_holds_the_first_exchange_and_none_of_the_assistants_parameters(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await Assistant.objects.aupdate(parameters={"temperature": 0.2, "top_p": 0.5})
    await sync_to_async(builders.exchange)(chat_session, "And then?", "Home.")
    await follow(chat_session, "title")
    body = fake_endpoint.requests[-1].body
    assert set(body) == {"model", "messages", "max_tokens"}
    assert body["messages"][0] == {"role": "system", "content": prompts.TITLE}
    assert asked_last(fake_endpoint) == {
        "task": "title",
        "messages": [
            {"role": "user", "text": FIRST_LINE},
            {"role": "assistant", "text": "In the mountains."},
        ],
    }


async def test_a_call_is_kept_with_its_tokens_and_cost_and_without_text(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await ModelEndpoint.objects.aupdate(price_input=10, price_cached_input=1, price_output=100)
    fake_endpoint.replies(answer("Holidays", usage=(50, 10, 5)))
    await follow(chat_session, "title")
    row = await ModelCall.objects.aget()
    assert (row.kind, row.chat_session_id, row.error_code) == ("title", chat_session.pk, "")
    endpoint = await ModelEndpoint.objects.aget()
    assert (row.endpoint_name, row.model_name) == (endpoint.name, "fake")
    assert (row.input_tokens, row.cached_input_tokens, row.output_tokens) == (50, 10, 5)
    assert row.cost is not None
    assert float(row.cost) == pytest.approx((40 * 10 + 10 * 1 + 5 * 100) / 1_000_000)


async def test_a_users_title_stays_whatever_the_model_says(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    chat_session.title, chat_session.title_source = "Mine", "user"
    await chat_session.asave()
    await follow(chat_session, "title")
    assert fake_endpoint.requests == []
    assert await title_of(chat_session) == ("Mine", "user")


async def test_a_title_that_a_user_gives_while_the_model_writes_stays(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    meanwhile = Meanwhile(fake_endpoint, answer("The model's"))
    row = ChatSession.objects.filter(pk=chat_session.pk)
    await sync_to_async(_mark)(chat_session)
    await meanwhile.do(lambda: row.aupdate(title="Mine", title_source="user"))
    assert await title_of(chat_session) == ("Mine", "user")
    assert await sync_to_async(due_rows)() == []


async def test_a_title_under_another_epoch_is_not_saved(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    meanwhile = Meanwhile(fake_endpoint, answer("Of what was cleared"))
    row = ChatSession.objects.filter(pk=chat_session.pk)
    await sync_to_async(_mark)(chat_session)
    await meanwhile.do(lambda: row.aupdate(memory_epoch=1, memory_starts_after=2))
    assert await title_of(chat_session) == (FIRST_LINE, "auto")


async def test_a_title_that_was_overtaken_is_made_again(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    meanwhile = Meanwhile(fake_endpoint, answer("Of what was there before"))
    row = ChatSession.objects.filter(pk=chat_session.pk)
    await sync_to_async(_mark)(chat_session)
    await meanwhile.do(lambda: row.aupdate(memory_epoch=1))
    assert await title_of(chat_session) == (FIRST_LINE, "auto")
    [(kind, attempts, error)] = await sync_to_async(due_rows)()
    assert (kind, attempts, error.split(":")[0]) == ("title", 1, "overtaken")
    fake_endpoint.replies(answer("Of what is there now"))
    await again()
    assert await title_of(chat_session) == ("Of what is there now", "model")


async def test_a_title_of_a_wording_that_was_edited_away_meanwhile_is_made_again(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    meanwhile = Meanwhile(fake_endpoint, answer("Of what was there before"))
    await sync_to_async(_mark)(chat_session)
    await meanwhile.do(lambda: sync_to_async(_edit)(chat_session))
    assert await title_of(chat_session) == (FIRST_LINE, "auto")
    assert [row[2].split(":")[0] for row in await sync_to_async(due_rows)()] == ["overtaken"]


@pytest.mark.parametrize(
    "said",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, I cannot provide a title for this.",
        "Sorry, but as an AI language model I have no opinions.",
        '{"title": "I am unable to assist with this request"}',
        "抱歉，我无法协助处理这个请求。",
        "对不起，但我不能回答。",
        "我无法为这段对话提供标题。",
        "作为一个人工智能，我不能……",
    ],
)
async def test_a_refusal_is_no_title_and_the_first_line_of_the_question_is_kept(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, said: str
) -> None:
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(title="Old")
    fake_endpoint.replies(answer(said))
    await follow(chat_session, "title")
    assert await title_of(chat_session) == (FIRST_LINE, "model")
    assert await sync_to_async(due_rows)() == []
    await follow(chat_session, "title")
    assert len(fake_endpoint.requests) == 1  # nobody asks again at every turn


async def test_a_session_that_was_deleted_while_the_model_wrote_leaves_the_cost_alone(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    meanwhile = Meanwhile(fake_endpoint, answer("Gone"))
    await sync_to_async(_mark)(chat_session)
    await meanwhile.do(lambda: sync_to_async(retention.forget_session)(chat_session.pk))
    assert not await ChatSession.objects.filter(pk=chat_session.pk).aexists()
    assert await ModelCall.objects.filter(chat_session=None, kind="title").acount() == 1
    assert await sync_to_async(due_rows)() == []


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (answer(""), "empty_answer"),
        (answer("<think>hm, what title"), "reasoning"),
        (answer("{}"), "bad_title"),
        (tool_call("remember", {"text": "x"}), "tool_call"),
        (answer("Holidays and", reason="length"), "cut_off"),
        (failure(500), "provider_error"),
        (failure(401), "auth_failed"),
    ],
)
async def test_what_is_no_title_changes_nothing_and_is_tried_again(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, reply: Reply, code: str
) -> None:
    await ModelEndpoint.objects.aupdate(max_retries=0)
    fake_endpoint.replies(reply)
    assert await follow(chat_session, "title") == {"done": 0, "failed": 1, "given back": 0}
    assert await title_of(chat_session) == (FIRST_LINE, "auto")
    [(kind, attempts, error)] = await sync_to_async(due_rows)()
    assert (kind, attempts, error.split(":")[0]) == ("title", 1, code)
    assert await sync_to_async(calls)() == [("title", code)]
    fake_endpoint.replies(answer("Holidays"))
    await again()
    assert await title_of(chat_session) == ("Holidays", "model")


async def test_a_failed_first_answer_gets_its_title_later(
    fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_PREFERENCES_MODE = "off"  # the title is all that is asked for
    chat_session = await sync_to_async(session_at)(fake_endpoint, title=FIRST_LINE)
    fake_endpoint.replies(failure(400))
    await sync_to_async(builders.exchange)(chat_session, FIRST_LINE, None, status="failed")
    await follow(chat_session, "title")
    assert (fake_endpoint.requests, await title_of(chat_session)) == ([], (FIRST_LINE, "auto"))
    fake_endpoint._script.clear()
    turn = await chat_session.turns.afirst()
    assert turn is not None
    fake_endpoint.replies(answer("In the mountains."), answer("Holidays"))
    await run_order(order_again("retry", turn))
    await follow(chat_session, "title")
    assert await title_of(chat_session) == ("Holidays", "model")


async def test_an_answer_that_was_cut_off_gives_no_title(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint, title=FIRST_LINE)
    await sync_to_async(builders.exchange)(
        chat_session, FIRST_LINE, "In the", is_partial=True, status="stopped"
    )
    await follow(chat_session, "title")
    assert fake_endpoint.requests == []


async def test_titles_that_are_switched_off_are_never_made(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_TITLES_ENABLED = False
    await follow(chat_session, "title")
    assert (fake_endpoint.requests, await title_of(chat_session)) == ([], (FIRST_LINE, "auto"))


async def test_a_prompt_of_the_operators_own_is_used_instead_of_ours(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_TITLE_PROMPT = "Name it {in} %s one word."
    fake_endpoint.replies(answer("Mountains"))
    await follow(chat_session, "title")
    assert fake_endpoint.requests[-1].body["messages"][0]["content"] == "Name it {in} %s one word."
    assert await title_of(chat_session) == ("Mountains", "model")


async def test_what_was_forgotten_or_is_temporary_names_nothing(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(memory_starts_after=2)
    await follow(chat_session, "title")
    temporary = await sync_to_async(session_at)(fake_endpoint, is_temporary=True)
    await sync_to_async(builders.exchange)(temporary)
    await follow(temporary, "title")
    assert fake_endpoint.requests == []


async def test_memory_that_is_off_does_not_keep_a_session_from_its_title(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(memory_enabled=False)
    fake_endpoint.replies(answer("Holidays"))
    await follow(chat_session, "title")
    assert await title_of(chat_session) == ("Holidays", "model")


@pytest.mark.pure
@pytest.mark.parametrize(
    "title",
    [
        "Sorry Seems to Be the Hardest Word",
        "I can't sleep",
        "I Won't Back Down chords",
        "As an airline pilot",
        "Unfortunately timed holidays",
        "对不起用英语怎么说",
        "我不能吃辣",
        "抱歉信模板",
        "作为一个新手学编程",
    ],
)
def test_a_title_that_only_sounds_like_a_refusal_is_one(title: str) -> None:
    assert not is_refusal(title)


def _mark(chat_session: ChatSession) -> None:
    dues.mark_session("title", chat_session.pk)


def _edit(chat_session: ChatSession) -> None:
    """Another wording instead of everything that is there."""
    ChatMessage.objects.filter(chat_session=chat_session).update(is_on_path=False)
    builders.exchange(chat_session, "Where do we live?", "In Rome.")


@pytest.mark.pure
@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Holidays", "Holidays"),
        ("  Holidays in\tItaly \n", "Holidays in Italy"),
        ("Title: “Holidays”", "Holidays"),
        ("**Title:** Holidays", "Holidays"),
        ("# Holidays", "Holidays"),
        ("标题：《假期计划》。", "假期计划"),
        ("《红楼梦》读后", "《红楼梦》读后"),
        ('{"title": "Holidays"}', "Holidays"),
        ('```json\n{"title": "Holidays"}\n```', "Holidays"),
        ("<think>They talk of Italy.</think>\n\nHolidays", "Holidays"),
        ("Here is a title:\n\nHolidays\n\nIt is short.", "Holidays"),
        ("Sure! Here's a short title for it: Holidays", "Holidays"),
        ("Here is the plan: Rome", "Here is the plan: Rome"),
        ("好的，以下是标题：假期计划", "假期计划"),
        ("这是我的家：上海", "这是我的家：上海"),
        ("`snake_case` in **Python**", "snake_case in Python"),
        ("[Holidays](https://example.org)", "Holidays"),
        ("Wait...", "Wait..."),
        ("Hola \u202egnp.txt", "Hola gnp.txt"),
        ("3 < 4 & 5 > 2", "3 < 4 & 5 > 2"),
        ("2024", "2024"),
        ("עברית ושפות אחרות", "עברית ושפות אחרות"),
    ],
)
def test_a_title_is_cleaned_of_what_is_no_title(said: str, title: str) -> None:
    assert clean_title(said) == title


@pytest.mark.pure
def test_a_long_title_is_cut_at_a_word_or_where_there_is_none() -> None:
    cut = clean_title("word " * 60)
    assert cut == "word " * 10 + "word…"
    assert clean_title("字" * 300) == "字" * (LENGTH - 1) + "…"
    assert len(clean_title("x" * 300)) == LENGTH


@pytest.mark.pure
@pytest.mark.parametrize(
    "said",
    ["", " \n", "«»", "Title:", '{"name": "x"}', '{"title": 3}', '{"title": "cut', "…", "[]"],
)
def test_what_holds_no_title_is_rejected(said: str) -> None:
    with pytest.raises(Rejected, match="bad_title"):
        clean_title(said)


@pytest.mark.pure
def test_reasoning_that_is_never_closed_is_no_title() -> None:
    with pytest.raises(Rejected, match="reasoning"):
        clean_title("<think>Maybe Holidays")
