"""Follow-ups, summaries and digests in the admin: seen, compared, made anew, edited, deleted."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client

from chat import dues
from chat.models import AuditEvent, FollowUp
from memory import digests
from memory.models import ConversationSummary, UserDigest
from tests import builders
from tests.chat.admin_site import READ, list_url, page_url, rows_of, signed_in, text_of, viewer

pytestmark = [pytest.mark.django_db, pytest.mark.pages]
MANAGE = "chat.manage_memory"
VIEW = ["chat.view_followup", "memory.view_conversationsummary", "memory.view_userdigest"]


@pytest.fixture
def client() -> Client:
    return signed_in(viewer(READ, MANAGE, *VIEW))


@pytest.fixture
def onlooker() -> Client:
    """May look at every list, read no text and change nothing."""
    return signed_in(viewer(*VIEW))


def summary(chat_session: Any, text: str = "The secret plan", seq: int = 1) -> ConversationSummary:
    version = chat_session.summaries.count() + 1
    return ConversationSummary.objects.create(
        chat_session=chat_session,
        version=version,
        text=f"Facts:\n- {text}",
        items=[{"kind": "facts", "text": text, "seq": seq}],
        covers_from=1,
        covers_through=2 * version,
        last_message=uuid.uuid4(),
        memory_epoch=0,
        token_count=5,
        token_encoding="o200k_base",
        source_tokens=50,
    )


def digest(person: Any, text: str = "Plans a trip", **fields: Any) -> UserDigest:
    tenant = fields.pop("tenant", None) or builders.tenant("default")
    return UserDigest.objects.create(tenant=tenant, user=person, text=text, **fields)


def act(client: Client, model: Any, action: str, *rows: Any, **more: Any) -> Any:
    chosen = {"action": action, "_selected_action": [row.pk for row in rows], **more}
    return client.post(list_url(model), chosen, follow=True)


def events() -> list[tuple[str, str, str]]:
    """What was changed: action, object and reason."""
    rows = AuditEvent.objects.exclude(action__endswith=".read").exclude(action__endswith=".list")
    return list(rows.order_by("pk").values_list("action", "object_id", "reason"))


# --- Follow-ups -----------------------------------------------------------------------------------


def failed_title(chat_session: Any) -> FollowUp:
    dues.mark_session("title", chat_session.pk)
    [claim] = dues.claim(1)
    dues.failed(claim, "timeout: It was not done within 120 s.")
    return FollowUp.objects.get()


def test_a_follow_up_shows_its_last_error_and_is_tried_now(client: Client) -> None:
    row = failed_title(builders.chat_session())
    page = text_of(client.get(list_url(FollowUp)))
    assert '<span class="badge badge-bad">timeout</span>' in page
    assert "failed, waits" in page
    assert "timeout: It was not done within 120 s." in text_of(client.get(page_url(row)))
    assert dues.claim(1) == []
    said = text_of(act(client, FollowUp, "try_now", row))
    assert "1 follow-up is due now." in said
    assert events() == [("follow_up.try_now", str(row.pk), "")]
    [claim] = dues.claim(1)
    assert claim.attempts == 1


def test_what_an_error_quotes_is_for_those_who_may_read_text(
    client: Client, onlooker: Client
) -> None:
    dues.mark_session("summary", builders.chat_session().pk)
    [claim] = dues.claim(1)
    dues.failed(claim, "bad_summary: 青云 is no summary")
    row = FollowUp.objects.get()
    assert "青云" in text_of(client.get(page_url(row)))
    for address in (list_url(FollowUp), page_url(row)):
        page = text_of(onlooker.get(address))
        assert "bad_summary" in page
        assert "青云" not in page


def test_failed_follow_ups_can_be_asked_for(client: Client) -> None:
    failed_title(builders.chat_session())
    dues.mark_session("summary", builders.chat_session().pk)
    url = list_url(FollowUp)
    assert [row.kind for row in rows_of(client.get(url, {"failed": "yes"}))] == ["title"]
    assert [row.kind for row in rows_of(client.get(url, {"failed": "no"}))] == ["summary"]


def test_who_may_not_manage_memory_cannot_try_and_nobody_changes_a_row(onlooker: Client) -> None:
    row = failed_title(builders.chat_session())
    act(onlooker, FollowUp, "try_now", row)
    assert dues.claim(1) == []
    assert onlooker.get(page_url(row)).status_code == 200
    assert onlooker.post(page_url(row), {"attempts": 0}).status_code == 403
    assert "Save" not in text_of(onlooker.get(page_url(row)))


def test_follow_ups_of_another_tenant_are_not_there(client: Client) -> None:
    foreign = failed_title(builders.chat_session(tenant=builders.tenant()))
    assert rows_of(client.get(list_url(FollowUp))) == []
    act(client, FollowUp, "try_now", foreign)
    assert dues.claim(1) == []


# --- Summaries ------------------------------------------------------------------------------------


def test_a_summary_shows_its_text_and_the_message_of_each_item(client: Client) -> None:
    row = summary(builders.chat_session(), seq=7)
    page = text_of(client.get(page_url(row)))
    assert "The secret plan" in page
    assert "?seq=7#seq-7" in page
    assert "messages 1 to 2" in page
    assert "5 for 50" in page
    assert AuditEvent.objects.filter(action="summary.read", object_id=str(row.pk)).exists()


def test_without_the_permission_no_text_is_shown_anywhere(onlooker: Client) -> None:
    chat_session = builders.chat_session()
    first, second = summary(chat_session), summary(chat_session)
    for response in (
        onlooker.get(list_url(ConversationSummary)),
        onlooker.get(page_url(first)),
        act(onlooker, ConversationSummary, "compare", first, second),
    ):
        assert "secret" not in text_of(response)


def test_two_versions_are_compared_item_by_item(client: Client) -> None:
    chat_session = builders.chat_session()
    first, second = summary(chat_session, "Rome in May <b>"), summary(chat_session, "Rome in June")
    response = act(client, ConversationSummary, "compare", second, first)
    lines = response.context["groups"][0]["lines"]
    assert [(str(state).split(">")[1].split("<")[0], item.text) for state, item in lines] == [
        ("went", "Rome in May <b>"),
        ("came", "Rome in June"),
    ]
    assert b"<b>" not in response.content
    assert AuditEvent.objects.filter(action="summary.read").count() == 2


def test_only_two_versions_of_one_session_can_be_compared(client: Client) -> None:
    rows = [summary(builders.chat_session()), summary(builders.chat_session())]
    for chosen in (rows, rows[:1]):
        said = text_of(act(client, ConversationSummary, "compare", *chosen))
        assert "Choose exactly two versions of one session" in said


def test_a_summary_is_made_anew_when_its_turn_comes(client: Client) -> None:
    chat_session = builders.chat_session()
    row = summary(chat_session)
    said = text_of(act(client, ConversationSummary, "regenerate", row))
    assert "A new version is due in 1 session" in said
    due = FollowUp.objects.get()
    assert (due.kind, due.subject, due.chat_session_id) == (
        "summary",
        f"{chat_session.pk}:anew",
        chat_session.pk,
    )
    assert events() == [("summary.regenerate", str(chat_session.pk), "")]


def test_deleting_takes_every_version_of_the_session_with_a_reason_on_record(
    client: Client,
) -> None:
    chat_session, other = builders.chat_session(), builders.chat_session()
    first = summary(chat_session)
    summary(chat_session)
    kept = summary(other)
    asked = text_of(act(client, ConversationSummary, "delete_versions", first))
    assert "Every version goes" in asked
    assert ConversationSummary.objects.count() == 3
    said = text_of(act(client, ConversationSummary, "delete_versions", first, reason="It is wrong"))
    assert "Deleted 2 versions." in said
    assert list(ConversationSummary.objects.all()) == [kept]
    chat_session.refresh_from_db()
    assert chat_session.memory_epoch == 1
    assert events() == [("summary.delete", str(chat_session.pk), "It is wrong")]


def test_who_may_not_manage_memory_neither_deletes_nor_regenerates(onlooker: Client) -> None:
    row = summary(builders.chat_session())
    for action in ("regenerate", "delete_versions"):
        act(onlooker, ConversationSummary, action, row, reason="x")
    assert ConversationSummary.objects.exists()
    assert not FollowUp.objects.exists()
    assert events() == []


# --- Digests --------------------------------------------------------------------------------------


def test_staff_edit_a_digest_with_a_reason(client: Client) -> None:
    row = digest(builders.user())
    assert "Plans a trip" in text_of(client.get(page_url(row)))
    refused = client.post(page_url(row), {"text": "A nurse", "reason": ""})
    assert "This field is required." in text_of(refused)
    assert client.post(page_url(row), {"text": " ", "reason": "x"}).status_code == 200
    assert (
        client.post(page_url(row), {"text": "A nurse", "reason": "She said so"}).status_code == 302
    )
    row.refresh_from_db()
    assert (row.text, row.origin) == ("A nurse", "admin")
    assert events() == [("digest.edit", str(row.pk), "She said so")]


def test_a_digest_is_used_no_more_and_again(client: Client) -> None:
    person = builders.user()
    row = digest(person)
    act(client, UserDigest, "disable", row)
    assert digests.of(row.tenant_id, person.pk) is None
    act(client, UserDigest, "enable", row)
    assert digests.of(row.tenant_id, person.pk) is not None
    assert [action for action, _, _ in events()] == ["digest.disable", "digest.enable"]


def test_a_deleted_digest_leaves_the_list_and_no_text(client: Client) -> None:
    row = digest(builders.user())
    page = page_url(row).replace("change", "delete")
    assert client.post(page, {"post": "yes"}).status_code == 302
    row.refresh_from_db()
    assert (row.text, row.made_after is None) == ("", False)
    assert rows_of(client.get(list_url(UserDigest))) == []
    assert client.get(page_url(row)).status_code == 302


def test_digests_are_seen_by_their_tenants_staff_and_read_by_who_may_read(
    client: Client, onlooker: Client
) -> None:
    mine = digest(builders.user())
    foreign = digest(builders.user(), tenant=builders.tenant())
    assert rows_of(client.get(list_url(UserDigest))) == [mine]
    assert client.get(page_url(foreign)).status_code == 302
    assert "Plans a trip" not in text_of(onlooker.get(list_url(UserDigest)))
    assert "Plans a trip" not in text_of(onlooker.get(page_url(mine)))
    assert onlooker.post(page_url(mine), {"text": "x", "reason": "y"}).status_code == 403
