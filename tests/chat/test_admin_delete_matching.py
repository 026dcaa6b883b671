"""Every session of a filtered list is deleted: as counted, in batches, and again after a crash."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import retention
from chat.admin import delete_matching
from chat.models import AuditEvent, ChatSession, SessionTombstone
from tests import builders
from tests.chat.admin_site import CHANGES, list_url, said, signed_in, text_of, viewer

pytestmark = pytest.mark.django_db

ADDRESS = reverse("admin:chat_chatsession_delete_matching") + "?state=archived"


@pytest.fixture
def person() -> Any:
    return viewer(*CHANGES)


@pytest.fixture
def client(person: Any) -> Client:
    return signed_in(person)


def archived(count: int, **fields: Any) -> list[ChatSession]:
    return [builders.chat_session(is_archived=True, **fields) for _ in range(count)]


def form_of(response: Any, **more: str) -> dict[str, str]:
    """What the page would send."""
    going = response.context["going"]
    return {
        "until": going.until.isoformat(),
        "total": str(going.total),
        "done": str(going.done),
        "after": str(going.after or ""),
        "typed": going.confirmation,
        **more,
    }


def go_through(client: Client, **more: str) -> list[Any]:
    """Confirm, and send on what each page sends on; the answers."""
    answers = [client.get(ADDRESS)]
    while answers[-1].status_code == 200:
        answers.append(client.post(ADDRESS, form_of(answers[-1], **more), REMOTE_ADDR="192.0.2.9"))
        assert len(answers) < 20
    return answers


def test_it_counts_without_what_is_held_and_without_other_tenants(client: Client) -> None:
    archived(3, message_count=4, turn_count=2)
    archived(1, is_held=True)
    archived(2, tenant=builders.tenant())
    builders.chat_session()
    response = client.get(ADDRESS)
    assert dict(response.context["counts"]) == {
        "sessions": 3,
        "messages": 12,
        "turns": 6,
        "held, and not deleted": 1,
    }
    assert ChatSession.objects.count() == 7


def test_all_of_several_batches_go_and_nothing_else(
    client: Client, person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_matching, "BATCH", 3)
    gone = archived(8)
    kept = [*archived(1, is_held=True), *archived(1, tenant=builders.tenant())]
    kept.append(builders.chat_session())
    answers = go_through(client, reason="asked\x00 by law")
    assert [each.context["going"].done for each in answers[1:-1]] == [3, 6]
    assert answers[-1]["Location"] == list_url(ChatSession) + "?state=archived"
    assert "Deleted 8 sessions." in said(client.get(answers[-1]["Location"]))
    assert set(ChatSession.objects.all()) == set(kept)
    assert set(SessionTombstone.objects.values_list("pk", flat=True)) == {s.pk for s in gone}
    event = AuditEvent.objects.get(action="session.delete_matching")
    assert (event.actor, event.count, event.reason, event.ip) == (
        person,
        8,
        "asked by law",
        "192.0.2.9",
    )
    assert event.filter["asked"] == {"state": "archived"}
    assert AuditEvent.objects.filter(action="session.delete", actor=person).count() == 8


def test_a_process_that_dies_has_deleted_whole_sessions_and_the_rest_is_confirmed_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived(5)
    form = form_of(client.get(ADDRESS))
    forget, asked = retention.forget_session, []

    def killed(*args: Any, **options: Any) -> Any:
        asked.append(args)
        if len(asked) == 3:
            raise SystemExit
        return forget(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(retention, "forget_session", killed)
        with pytest.raises(SystemExit):
            client.post(ADDRESS, form)
    assert ChatSession.objects.count() == 3
    again = client.post(ADDRESS, form)
    assert "The list has changed meanwhile. Nothing was deleted." in text_of(again)
    assert ChatSession.objects.count() == 3
    client.post(ADDRESS, form_of(again))
    assert not ChatSession.objects.exists()


def test_it_answers_before_anybody_loses_patience(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_matching, "SECONDS", 0.0)
    archived(3)
    answers = go_through(client)
    assert [each.context["going"].done for each in answers[1:-1]] == [1, 2]
    assert not ChatSession.objects.exists()


def test_what_is_used_or_held_after_it_was_counted_is_kept(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_matching, "BATCH", 1)
    archived(4)
    first, *rest = ChatSession.objects.order_by("pk")
    going = client.post(ADDRESS, form_of(client.get(ADDRESS)))
    assert not ChatSession.objects.filter(pk=first.pk).exists()
    later = timezone.now() + timedelta(seconds=1)
    ChatSession.objects.filter(pk=rest[0].pk).update(last_active_at=later)
    ChatSession.objects.filter(pk=rest[1].pk).update(is_held=True)
    while going.status_code == 200:
        going = client.post(ADDRESS, form_of(going))
    assert set(ChatSession.objects.all()) == set(rest[:2])


@pytest.mark.parametrize(
    "changed",
    [
        {"typed": "2"},
        {"typed": ""},
        {"until": "yesterday"},
        {"until": "2026-01-01T00:00:00"},
        {"until": "9999-99-99T00:00:00Z"},
        {"total": "-1"},
        {"total": "9" * 9},
        {"total": "²"},
        {"done": "x"},
        {"after": "x"},
    ],
)
def test_a_form_that_was_not_confirmed_deletes_nothing(
    client: Client, changed: dict[str, str]
) -> None:
    archived(3)
    response = client.post(ADDRESS, {**form_of(client.get(ADDRESS)), **changed})
    assert response.status_code == 200
    assert ChatSession.objects.count() == 3
    assert not AuditEvent.objects.exists()


def test_a_list_without_a_filter_is_not_deleted_and_one_with_an_unknown_filter_neither(
    client: Client,
) -> None:
    archived(2)
    whole = ADDRESS.partition("?")[0]
    for query in ("", "?p=2", "?o=1"):
        response = client.post(whole + query, {"typed": "2", "total": "2"}, follow=True)
        assert said(response)[0].startswith("Filter the list first")
    assert client.post(whole + "?content__icontains=a").status_code == 400
    assert ChatSession.objects.count() == 2


@pytest.mark.parametrize(
    "query",
    [
        "?review=unheard-of",
        "?state=",
        "?person=%20",
        "?tag=%00",
        "?last_active_at_from=yesterday",
        "?_popup=1",
    ],
)
def test_a_filter_that_leaves_out_nothing_is_none(person: Any, query: str) -> None:
    archived(2, tenant=builders.tenant("default"))
    for somebody in (person, builders.superuser()):
        client = signed_in(somebody)
        for method in (client.get, client.post):
            response = method(ADDRESS.partition("?")[0] + query, {}, follow=True)
            assert said(response)[0].startswith("Filter the list first")
        page = client.get(ADDRESS)
        assert page.context["going"].total == 2


def test_a_reason_is_wanted_where_reading_wants_one(client: Client, settings: Any) -> None:
    settings.CHAT_READ_REASON_REQUIRED = True
    archived(2)
    page = client.post(ADDRESS, form_of(client.get(ADDRESS), reason=" \x00 "))
    assert "Say why. Nothing was deleted." in text_of(page)
    assert ChatSession.objects.count() == 2
    go_through(client, reason="asked for")
    assert not ChatSession.objects.exists()


def test_a_list_of_held_sessions_alone_has_nothing_to_delete(client: Client) -> None:
    archived(2, is_held=True)
    page = text_of(client.get(ADDRESS))
    assert "There is nothing to delete." in page
    assert 'name="typed"' not in page


def test_more_than_can_be_counted_is_not_deleted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_matching, "COUNTED", 2)
    archived(3)
    page = client.get(ADDRESS)
    assert "filter it further" in text_of(page)
    assert 'name="typed"' not in text_of(page)
    client.post(ADDRESS, form_of(page))
    assert ChatSession.objects.count() == 3


def test_a_filtered_list_leads_there_for_those_who_may_delete(client: Client) -> None:
    address = ADDRESS.replace("&", "&amp;")
    assert address in text_of(client.get(list_url(ChatSession), {"state": "archived"}))
    assert "delete-matching" not in text_of(client.get(list_url(ChatSession)))
    looker = signed_in(viewer())
    assert "delete-matching" not in text_of(looker.get(list_url(ChatSession), {"state": "held"}))
    assert looker.get(ADDRESS).status_code == looker.post(ADDRESS).status_code == 403


def test_what_a_search_finds_is_not_deleted_as_a_whole(client: Client) -> None:
    """The rest of a search moves up into its results: more would go than was confirmed."""
    archived(2, title="Trip")
    answer = client.get(list_url(ChatSession), {"state": "archived", "q": "Trip"})
    assert "delete-matching" not in text_of(answer)
    form = {"until": timezone.now().isoformat(), "total": "2", "typed": "2"}
    for response in (client.get(f"{ADDRESS}&q=Trip"), client.post(f"{ADDRESS}&q=Trip", form)):
        assert response.status_code == 302
    assert said(client.get(list_url(ChatSession))) == [delete_matching.NO_SEARCH] * 2
    assert ChatSession.objects.count() == 2
