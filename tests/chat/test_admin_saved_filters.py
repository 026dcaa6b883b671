"""Filters that staff keep of the admin's lists: their own, and nothing that a list would refuse."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chat.admin import saved_filters
from chat.admin.base import ChatAdmin
from chat.models import ChatMessage, ChatSession, Membership, SavedFilter
from chat.retention.people import forget_user, survey
from chat.retention.verification import Needles, verify
from memory.models import UserPreference
from tests import builders
from tests.chat.admin_site import READ, list_url, rows_of, said, signed_in, text_of, viewer

pytestmark = pytest.mark.django_db
SESSIONS = list_url(ChatSession)


@pytest.fixture
def person() -> Any:
    return viewer(READ)


@pytest.fixture
def client(person: Any) -> Client:
    return signed_in(person)


def address(model: type[Any], verb: str, *keys: Any) -> str:
    name = f"{model._meta.app_label}_{model._meta.model_name}_{verb}_filter"
    return reverse(f"admin:{name}", args=keys)


def save(client: Client, name: str, query: str, model: type[Any] = ChatSession) -> Any:
    """The page that saving leads to."""
    sent = {"name": name, "query": query}
    return client.post(address(model, "save"), sent, follow=True)


def kept(owner: Any) -> list[tuple[str, str, str]]:
    rows = SavedFilter.objects.filter(owner=owner)
    return list(rows.values_list("list", "name", "query"))


def shown(client: Client, query: str = "", model: type[Any] = ChatSession) -> Any:
    """The row above a list."""
    return client.get(f"{list_url(model)}?{query}").context["saved_filters"]


# --- Saving ---------------------------------------------------------------------------------------


def test_a_filter_is_saved_under_a_name_and_leads_back_to_what_it_showed(
    client: Client, person: Any
) -> None:
    held = builders.chat_session(title="Plan 项目", is_held=True)
    builders.chat_session(title="Plan 项目")
    page = save(client, "  My\nplans ", "state=held&q=项目")
    assert kept(person) == [("chat_chatsession", "My plans", "q=%E9%A1%B9%E7%9B%AE&state=held")]
    assert said(page) == ["Saved this filter as “My plans”."]
    assert page.redirect_chain == [(f"{SESSIONS}?q=%E9%A1%B9%E7%9B%AE&state=held", 302)]
    (row,) = shown(client).filters
    assert rows_of(client.get(f"{SESSIONS}?{row.query}")) == [held]


def test_only_what_the_list_allows_is_saved(client: Client, person: Any) -> None:
    asked = (
        "state=held&p=3&e=1&o=-1&all=&_popup=1&_to_field=id&_facets=True&csrfmiddlewaretoken=x"
        "&title__icontains=plan&messages__content__icontains=secret&user__password=a&person="
    )
    save(client, "held", asked)
    assert kept(person) == [("chat_chatsession", "held", "state=held")]


def test_a_query_of_nothing_that_is_allowed_is_not_saved(client: Client, person: Any) -> None:
    for query in ("", "p=2", "title__icontains=plan", "q=%20&person="):
        page = save(client, "nothing", query)
        assert said(page) == ["There was no filter to save: filter or search the list first."]
        assert page.redirect_chain == [(SESSIONS, 302)]
    assert kept(person) == []


def test_what_a_list_allows_within_one_session_alone_is_saved_with_the_session(
    client: Client, person: Any
) -> None:
    of_one = f"chat_session__id__exact={builders.chat_session().pk}"
    save(client, "all questions", "role__exact=user", ChatMessage)
    save(client, "questions", f"role__exact=user&{of_one}", ChatMessage)
    assert kept(person) == [("chat_chatmessage", "questions", f"{of_one}&role__exact=user")]
    (row,) = shown(client, model=ChatMessage).filters
    assert client.get(f"{list_url(ChatMessage)}?{row.query}").status_code == 200


@pytest.mark.parametrize(
    ("model", "query"),
    [
        (ChatSession, "user__id__exact=nobody"),
        (ChatMessage, "chat_session__id__exact=%20&chat_session__id__exact=x"),
        (ChatMessage, "chat_session__id__exact=&role__exact=user"),
    ],
)
def test_what_the_list_cannot_open_is_not_saved(
    client: Client, person: Any, model: type[Any], query: str
) -> None:
    sent = {"name": "odd", "query": query}
    assert client.post(address(model, "save"), sent).status_code == 302
    message = said(client.get(list_url(model)))
    assert message == [
        "The list does not understand this filter: set it in the list, then save it."
    ]
    assert kept(person) == []


def test_a_name_is_one_line_of_sixty_characters(client: Client, person: Any) -> None:
    for blank in ("", " \n\t", "\u200b", "\x00"):
        page = save(client, blank, "state=held")
        assert said(page) == ["The filter was not saved: give it a name."]
    assert said(save(client, "n" * 61, "state=held")) == [
        "The name has 61 characters; it may have 60."
    ]
    assert kept(person) == []
    for name in ("n" * 60, "مرحبا", "😄", "<b>&"):
        save(client, name, "q=a")
    names = {name for _, name, _ in kept(person)}
    assert names == {"n" * 60, "مرحبا", "😄", "<b>&"}
    assert "<b>&</bdi>" not in client.get(SESSIONS).content.decode()


def test_a_query_that_is_too_long_is_refused_in_numbers(client: Client, person: Any) -> None:
    page = client.post(
        address(ChatSession, "save"), {"name": "long", "query": f"q={'a' * 1_999}"}, follow=True
    )
    assert said(page) == [
        "The filter has 2,001 characters in the address; it may have 2,000. Search for less."
    ]
    save(client, "long", f"q={'a' * 1_998}")
    assert [len(query) for *_, query in kept(person)] == [2_000]


def test_saving_under_the_same_name_again_replaces_the_filter(client: Client, person: Any) -> None:
    save(client, "mine", "state=held")
    save(client, "mine", "state=archived")
    save(client, "mine", "q=x", UserPreference)
    assert sorted(kept(person)) == [
        ("chat_chatsession", "mine", "state=archived"),
        ("memory_userpreference", "mine", "q=x"),
    ]


def test_only_so_many_are_kept_of_one_list(
    client: Client, person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_filters, "MOST", 2)
    for name in ("a", "b"):
        save(client, name, "state=held")
    page = save(client, "c", "state=held")
    assert said(page) == ["2 filters of this list are saved, which is the most: remove one first."]
    save(client, "b", "state=archived")
    assert [query for *_, query in kept(person)] == ["state=held", "state=archived"]


# --- The row above the list -----------------------------------------------------------------------


def test_every_list_of_chats_keeps_filters(person: Any) -> None:
    root = signed_in(builders.superuser())
    pages = [page for page in admin.site._registry.values() if isinstance(page, ChatAdmin)]
    assert len(pages) == 20
    for page in pages:
        save(root, "found", "q=x", page.model)
        (row,) = shown(root, "q=x", page.model).filters
        assert (row.name, row.query, row.is_current) == ("found", "q=x", True), page.model


def test_the_one_whose_filter_is_shown_is_marked(client: Client) -> None:
    save(client, "held", "state=held&person=ali")
    save(client, "archived", "state=archived")
    page = text_of(client.get(f"{SESSIONS}?person=ali&p=1&state=held&o=2"))
    assert '<a href="?person=ali&state=held" aria-current="page"><bdi>held</bdi></a>' in page
    assert '<a href="?state=archived"><bdi>archived</bdi></a>' in page
    assert "aria-current" not in text_of(client.get(SESSIONS)).split('class="saved-filters"')[1]


def test_a_list_without_filters_of_ones_own_and_without_a_search_says_nothing(
    client: Client,
) -> None:
    builders.chat_session()
    assert "saved-filters" not in text_of(client.get(SESSIONS))
    assert "Save this filter as" in text_of(client.get(SESSIONS, {"q": "x"}))
    save(client, "x", "q=x")
    page = text_of(client.get(SESSIONS))
    assert ("saved-filters" in page, "Save this filter as" in page) == (True, False)


def test_a_list_in_a_popup_shows_none(client: Client) -> None:
    save(client, "x", "q=x")
    assert "saved-filters" not in text_of(client.get(SESSIONS, {"_popup": "1", "q": "x"}))


def test_the_row_takes_one_query_however_many_there_are(client: Client, person: Any) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            client.get(f"{SESSIONS}?state=held")
        return len(found)

    none = queries()
    for number in range(20):
        SavedFilter.objects.create(
            owner=person, list="chat_chatsession", name=str(number), query="state=held"
        )
    assert queries() == none
    with CaptureQueriesContext(connection) as found:
        client.get(f"{SESSIONS}?state=held")
    assert sum("chat_savedfilter" in each["sql"] for each in found.captured_queries) == 1


# --- Whose they are -------------------------------------------------------------------------------


def test_nobody_sees_or_removes_what_somebody_else_saved(client: Client, person: Any) -> None:
    save(client, "mine", "state=held")
    mine = SavedFilter.objects.get()
    other = signed_in(builders.superuser())
    assert shown(other).filters == ()
    for key in (mine.pk, 987_654_321, 10**30):
        assert other.post(address(ChatSession, "remove", key)).status_code == 404
    save(other, "mine", "state=archived")
    assert kept(person) == [("chat_chatsession", "mine", "state=held")]


def test_one_removes_ones_own_in_its_list_and_stays_where_one_was(
    client: Client, person: Any
) -> None:
    save(client, "a", "state=held")
    save(client, "b", "state=archived")
    a = SavedFilter.objects.get(name="a")
    assert client.post(address(UserPreference, "remove", a.pk)).status_code == 404
    sent = {"query": "state=archived&p=2"}
    page = client.post(address(ChatSession, "remove", a.pk), sent, follow=True)
    assert page.redirect_chain == [(f"{SESSIONS}?state=archived", 302)]
    assert said(page) == ["Removed the saved filter “a”."]
    assert kept(person) == [("chat_chatsession", "b", "state=archived")]


def test_who_may_not_open_the_list_neither_saves_nor_removes(client: Client, person: Any) -> None:
    save(client, "mine", "state=held")
    row = SavedFilter.objects.get()
    person.user_permissions.clear()
    for url in (address(ChatSession, "save"), address(ChatSession, "remove", row.pk)):
        assert client.post(url, {"name": "x", "query": "q=x"}).status_code == 403
    assert kept(person) == [("chat_chatsession", "mine", "state=held")]


def test_a_saved_filter_opens_no_more_than_its_owner_may_see_by_then(
    client: Client, person: Any
) -> None:
    there = builders.chat_session(tenant=builders.tenant("default"), is_held=True)
    save(client, "held", "state=held")
    (row,) = shown(client).filters
    assert rows_of(client.get(f"{SESSIONS}?{row.query}")) == [there]
    Membership.objects.filter(user=person).update(tenant=builders.tenant("elsewhere"))
    assert rows_of(client.get(f"{SESSIONS}?{row.query}")) == []


def test_a_form_without_a_token_is_refused(person: Any) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(person)
    sent = {"name": "x", "query": "state=held"}
    assert strict.post(address(ChatSession, "save"), sent).status_code == 403
    page = strict.get(f"{SESSIONS}?state=held")
    assert page.content.decode().count("csrfmiddlewaretoken") >= 1
    token = strict.cookies["csrftoken"].value
    strict.post(address(ChatSession, "save"), {**sent, "csrfmiddlewaretoken": token})
    assert kept(person) == [("chat_chatsession", "x", "state=held")]


# --- Forgetting -----------------------------------------------------------------------------------


def keep(owner: Any, name: str, query: str, where: str = "chat_chatsession") -> SavedFilter:
    return SavedFilter.objects.create(owner=owner, list=where, name=name, query=query)


def test_a_persons_own_filters_go_with_the_account(person: Any) -> None:
    keep(person, "a", "q=zqsecret")
    keep(person, "b", "state=held")
    assert survey(person)["saved_filters"] == 2
    receipt = forget_user(person.pk)
    assert receipt.counts["saved_filters"] == 2
    assert not SavedFilter.objects.exists()


def test_an_account_that_is_kept_keeps_its_filters(person: Any) -> None:
    keep(person, "a", "state=held")
    forget_user(person.pk, keep_account=True)
    assert [name for _, name, _ in kept(person)] == ["a"]


def test_what_others_saved_to_find_a_person_goes_with_the_person() -> None:
    gone = builders.user("张伟", email="z+w@example.org", first_name="Wei", last_name="Zhang")
    staff = viewer()
    keep(staff, "by name", "person=%E5%BC%A0%E4%BC%9F")
    keep(staff, "by address", "q=z%2Bw%40example.org&state=held")
    keep(staff, "by both", "q=about+wei+zhang+once")
    keep(staff, "about Wei Zhang", "state=held")
    keep(staff, "by id", f"user__id__exact={gone.pk}", "memory_userpreference")
    keep(staff, "another", "person=%E5%BC%A0%E4%BC%9F%E5%A4%A7")
    keep(staff, "another id", f"user__id__exact={gone.pk}0", "memory_userpreference")
    receipt = forget_user(gone.pk)
    assert receipt.counts["saved_filters"] == 5
    assert {name for _, name, _ in kept(staff)} == {"another", "another id"}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("zqsecret", "q=zqsecret"),
        ("第一轮 对话", "q=%E7%AC%AC%E4%B8%80%E8%BD%AE+%E5%AF%B9%E8%AF%9D"),
        ("a+b@example.org", "q=a%2Bb%40example.org"),
    ],
)
def test_verification_finds_a_text_in_a_saved_query(person: Any, text: str, query: str) -> None:
    keep(person, "a", query)
    assert verify(Needles([text])).found == {"chat_savedfilter.query": 1}
    assert verify(Needles(names=[text])).found == {"chat_savedfilter.query": 1}
    assert verify(Needles(names=[text[:-1]])).found == {}
