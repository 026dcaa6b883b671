"""Exporting from the admin site: the rows of the list, for who may, as they are read."""

from __future__ import annotations

import csv
import io
import json
import uuid
from collections.abc import AsyncIterable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import LazySettings
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chat.models import (
    AuditEvent,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ExportJob,
    ReviewTag,
)
from chat.transfer import export_files, export_jobs
from tests import builders
from tests.chat.admin_site import READ, list_url, rows_of, signed_in, text_of, viewer

pytestmark = pytest.mark.django_db

METADATA, TEXT = "chat.export_metadata", "chat.export_text"
ALL = ["sessions", "messages", "turns", "feedback", "usage"]


@pytest.fixture(autouse=True)
def media(settings: LazySettings, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path


@pytest.fixture
def client() -> Client:
    return signed_in(builders.superuser("root"))


def new_url(source: str = "chatsession", query: str = "") -> str:
    return reverse("admin:chat_exportjob_new", args=[source]) + (f"?{query}" if query else "")


def file_url(job: ExportJob | uuid.UUID) -> str:
    return reverse("admin:chat_exportjob_file", args=[getattr(job, "pk", job)])


def remove_url(job: ExportJob | uuid.UUID) -> str:
    return reverse("admin:chat_exportjob_remove", args=[getattr(job, "pk", job)])


def asked(kind: str = "sessions", form: str = "jsonl", **more: str) -> dict[str, str]:
    return {"kind": kind, "format": form, **more}


def body_of(response: Any) -> bytes:
    async def gather() -> bytes:
        pieces = cast(AsyncIterable[bytes], response.streaming_content)
        return b"".join([piece async for piece in pieces])

    assert response.status_code == 200
    return async_to_sync(gather)()


def lines_of(response: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body_of(response).decode().splitlines()]


def table_of(response: Any) -> list[dict[str, str]]:
    text = body_of(response).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def session_ids(rows: list[dict[str, Any]]) -> set[str]:
    return {row.get("session") or row["id"] for row in rows}


def ids(*sessions: ChatSession) -> set[str]:
    return {str(each.pk) for each in sessions}


def sessions(count: int, **fields: Any) -> list[ChatSession]:
    assistant = builders.assistant()
    made = [builders.chat_session(assistant=assistant, **fields) for _ in range(count)]
    for each in made:
        builders.exchange(each)
    return made


# --- The same rows as the list --------------------------------------------------------------------


def test_a_list_leads_to_its_export_with_its_filters(client: Client) -> None:
    page = text_of(client.get(list_url(ChatSession), {"state": "held", "p": "1"}))
    assert f'href="{new_url(query="state=held")}"' in page
    for model in (ChatMessage, ChatTurn):
        assert f'href="{new_url(str(model._meta.model_name))}?"' in text_of(
            client.get(list_url(model))
        ).replace(
            f'{new_url(str(model._meta.model_name))}"', f'{new_url(str(model._meta.model_name))}?"'
        )
    assert "Export…" not in text_of(client.get(list_url(AuditEvent)))


def test_an_export_holds_all_pages_of_the_list(client: Client) -> None:
    sessions(60)
    assert len(rows_of(client.get(list_url(ChatSession)))) == 50
    assert len(lines_of(client.post(new_url(query="p=2"), asked()))) == 60


def test_tag_state_rating_and_search_choose_as_in_the_list(client: Client) -> None:
    """Exported by tag, by state of review and by rating, in whatever kind."""
    plain, tagged, flagged, rated, named = sessions(5)
    tag = ReviewTag.objects.create(tenant=tagged.tenant, slug="价格", name="价格")
    tag.chat_sessions.add(tagged)
    ChatSession.objects.filter(pk=flagged.pk).update(review_state="flagged")
    ChatSession.objects.filter(pk=named.pk).update(title="Invoice 2041")
    turn = rated.turns.get()
    builders.feedback(turn, value=-1, comment="No.")
    for query, chosen in (
        ("tag=价格", tagged),
        ("review=flagged", flagged),
        ("feedback=bad", rated),
        ("q=2041", named),
    ):
        name, _, value = query.partition("=")
        listed = rows_of(client.get(list_url(ChatSession), {name: value}))
        assert listed == [chosen], query
        for kind in ("sessions", "messages", "turns"):
            rows = lines_of(client.post(new_url(query=query), asked(kind)))
            assert session_ids(rows) == ids(chosen), (query, kind)
    (thumb,) = lines_of(client.post(new_url(query="feedback=bad"), asked("feedback")))
    assert (thumb["session"], thumb["value"]) == (str(rated.pk), -1)
    assert len(lines_of(client.post(new_url(), asked("messages")))) == 10
    assert str(plain.pk) in session_ids(lines_of(client.post(new_url(), asked())))


def test_lists_of_messages_and_turns_are_exported_themselves(client: Client) -> None:
    one, _ = sessions(2)
    query = f"chat_session__id__exact={one.pk}&role__exact=user"
    (row,) = lines_of(client.post(new_url("chatmessage", query), asked("messages")))
    assert (row["session"], row["role"]) == (str(one.pk), "user")
    query = "status__exact=completed"
    assert len(lines_of(client.post(new_url("chatturn", query), asked("turns")))) == 2
    assert lines_of(client.post(new_url("chatturn", "status__exact=failed"), asked("turns"))) == []


def test_the_page_says_how_many_rows_there_are_before_anything_is_written(client: Client) -> None:
    sessions(3)
    page = text_of(client.get(new_url()))
    for text in ("Sessions: 3", "Messages: 6", "Turns: 3", "Feedback: 0", "month: 3 people"):
        assert text in page
    assert "All rows of the list" in page
    filtered = text_of(client.get(new_url(query="review=flagged")))
    assert "Sessions: 0" in filtered
    assert "with its filters" in filtered
    assert not AuditEvent.objects.filter(action__startswith="export.").exists()


@pytest.mark.parametrize("source", ["auditevent", "user", "nothing", "tenant"])
def test_other_lists_are_not_exported(client: Client, source: str) -> None:
    assert client.get(new_url(source)).status_code == 404


def test_an_address_that_the_list_refuses_is_refused_here(client: Client) -> None:
    assert client.get(new_url(query="title__icontains=a")).status_code == 400
    assert (
        client.post(new_url("chatmessage", "content__icontains=a"), asked("messages")).status_code
        == 400
    )


@pytest.mark.parametrize("given", [{}, {"kind": "sessions"}, asked("passwords"), asked(form="xml")])
def test_a_form_that_is_not_whole_writes_nothing(client: Client, given: dict[str, str]) -> None:
    assert client.post(new_url(), given).status_code == 400
    assert not AuditEvent.objects.filter(action__startswith="export.").exists()


# --- Who may --------------------------------------------------------------------------------------


def test_exporting_is_a_permission_of_its_own() -> None:
    client = signed_in(viewer(READ, TEXT))
    assert client.get(new_url()).status_code == 403
    assert client.post(new_url(), asked()).status_code == 403
    assert client.get(list_url(ExportJob)).status_code == 403
    assert "Export…" not in text_of(client.get(list_url(ChatSession)))


def test_people_who_are_no_staff_are_asked_to_sign_in() -> None:
    assert signed_in(builders.user()).get(new_url()).status_code == 302


def test_a_kind_is_offered_to_who_may_open_its_list() -> None:
    person = builders.staff(
        tenants=[builders.tenant("default")],
        permissions=["chat.view_chatsession", "chat.view_chatturn", METADATA],
    )
    client = signed_in(person)
    page = text_of(client.get(new_url()))
    assert "Turns: " in page
    assert "Messages: " not in page
    assert client.post(new_url(), asked("messages")).status_code == 400
    assert client.get(new_url("chatmessage")).status_code == 403


@pytest.mark.parametrize("kind", ALL)
def test_an_export_holds_only_the_tenants_of_its_reader(kind: str) -> None:
    home, other = builders.tenant("home"), builders.tenant("other")
    (mine,), (foreign,) = sessions(1, tenant=home), sessions(1, tenant=other)
    for each in (mine, foreign):
        builders.feedback(each.turns.get(), value=1)
    client = signed_in(viewer(METADATA, "chat.view_feedback", tenants=[home]))
    rows = lines_of(client.post(new_url(), asked(kind)))
    assert rows
    assert {row["tenant"] for row in rows} == {"home"}
    foreign_query = f"chat_session__id__exact={foreign.pk}"
    assert lines_of(client.post(new_url("chatturn", foreign_query), asked("turns"))) == []


def test_text_is_exported_by_who_may_export_and_read_it(settings: LazySettings) -> None:
    chat_session = builders.chat_session(title="secret title")
    turn = builders.exchange(chat_session, "secret question", "secret answer")
    builders.feedback(turn, value=1, comment="secret comment")

    def found(person: Any, kind: str) -> str:
        answer = signed_in(person).post(new_url(), asked(kind, with_text="on"))
        return body_of(answer).decode()

    everything = [METADATA, "chat.view_feedback"]
    kinds = ("sessions", "messages", "feedback")
    allowed = viewer(*everything, TEXT, READ)
    assert all("secret" in found(allowed, kind) for kind in kinds)
    for permissions in ([], [TEXT], [READ]):
        refused = viewer(*everything, *permissions)
        assert not any("secret" in found(refused, kind) for kind in ALL)
    settings.CHAT_STAFF_CONTENT = False
    for person in (allowed, builders.superuser()):
        assert not any("secret" in found(person, kind) for kind in ALL)


def test_without_with_text_no_text_is_exported(client: Client) -> None:
    builders.exchange(builders.chat_session(title="secret"), "secret", "secret")
    for kind in ALL:
        assert b"secret" not in body_of(client.post(new_url(), asked(kind)))


def test_a_reason_is_asked_for_where_reading_needs_one(
    client: Client, settings: LazySettings
) -> None:
    settings.CHAT_READ_REASON_REQUIRED = True
    sessions(1)
    refused = client.post(new_url(), asked(with_text="on"))
    assert refused.status_code == 400
    assert "Say why you need what people wrote." in text_of(refused)
    body_of(client.post(new_url(), asked(with_text="on", reason="case 12")))
    assert AuditEvent.objects.get(action="export.download").reason == "case 12"
    body_of(client.post(new_url(), asked()))


# --- What is written ------------------------------------------------------------------------------


def test_every_export_is_recorded_once_without_what_was_searched_for(client: Client) -> None:
    (chat_session,) = sessions(1, title="Invoice")
    body_of(client.post(new_url(query="q=Invoice&state=held"), asked("messages", "csv")))
    ChatSession.objects.filter(pk=chat_session.pk).update(is_held=True)
    body_of(client.post(new_url(query="q=Invoice&state=held"), asked("messages", "csv")))
    first, second = AuditEvent.objects.filter(action="export.download").order_by("id")
    assert (first.count, second.count) == (0, 2)
    assert second.actor is not None
    assert second.filter == {
        "kind": "messages",
        "format": "csv",
        "text": False,
        "list": "chatsession",
        "asked": {"state": "held"},
        "searched": True,
    }


def test_a_download_is_named_and_kept_out_of_caches(client: Client) -> None:
    answer = client.post(new_url(), asked("messages", "csv"))
    today = timezone.now().date()
    assert answer["Content-Disposition"] == f'attachment; filename="messages-{today}.csv"'
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Cache-Control"].startswith("private, no-store")
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_csv_neutralises_what_people_wrote_and_json_lines_keep_it(client: Client) -> None:
    texts = ["=1+1", "a\x0bb", "😄", "中文", "@cmd", "-2"]
    chat_session = builders.chat_session()
    for text in texts:
        builders.message(chat_session, content=text)
    table = table_of(client.post(new_url(), asked("messages", "csv", with_text="on")))
    assert [row["content"] for row in table] == ["'=1+1", "a␋b", "😄", "中文", "'@cmd", "'-2"]
    lines = lines_of(client.post(new_url(), asked("messages", with_text="on")))
    assert [row["content"] for row in lines] == texts


def test_a_long_message_is_whole_in_json_lines_and_marked_in_csv(client: Client) -> None:
    text = "字" * 200_000
    chat_session = builders.chat_session()
    builders.message(chat_session, content=text)
    (line,) = lines_of(client.post(new_url(), asked("messages", with_text="on")))
    assert line["content"] == text
    (row,) = table_of(client.post(new_url(), asked("messages", "csv", with_text="on")))
    assert row["content"].endswith(
        "[cut: 200,000 characters, all of them in the JSON Lines export]"
    )
    assert row["content_characters"] == "200000"


def test_a_message_of_a_megabyte_does_not_hold_up_its_list(client: Client) -> None:
    """The list reads the beginning alone, and says so in SQL."""
    chat_session = builders.chat_session()
    builders.message(chat_session, content="字" * 1_000_000)
    with CaptureQueriesContext(connection) as queries:
        page = client.get(list_url(ChatMessage))
    assert page.status_code == 200
    assert len(page.content) < 100_000
    reading = [query["sql"] for query in queries if '"chat_chatmessage"."role"' in query["sql"]]
    assert ["SUBSTR" in sql and '"content", "chat' not in sql for sql in reading] == [True]


def test_usage_is_exported_by_person_and_month(client: Client) -> None:
    for name in ("ada", "ben"):
        builders.exchange(builders.chat_session(builders.user(name)), input_tokens=5)
    rows = table_of(client.post(new_url(), asked("usage", "csv")))
    month = timezone.now().strftime("%Y-%m")
    assert [(row["user"], row["month"], row["input_tokens"]) for row in rows] == [
        ("ada", month, "5"),
        ("ben", month, "5"),
    ]


@pytest.mark.django_db(transaction=True)
async def test_a_download_begins_before_all_of_it_was_read(
    settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the ASGI handler: an asynchronous generator, piece by piece."""
    monkeypatch.setattr("chat.transfer.export_streams.FIRST_ROWS", 2)
    monkeypatch.setattr("chat.transfer.export_streams.ROWS", 3)
    person = await sync_to_async(builders.superuser)()
    await sync_to_async(sessions)(4)
    client = AsyncClient()
    await client.aforce_login(person)
    answer: Any = await client.post(new_url(), asked("messages", "csv"))
    assert answer.is_async
    pieces = [piece async for piece in answer.streaming_content]
    assert pieces[0].startswith(b"\xef\xbb\xbfid,session,")
    assert [piece.count(b"\r\n") for piece in pieces] == [1, 2, 3, 3]


# --- In the background ----------------------------------------------------------------------------


@pytest.fixture
def few_inline(settings: LazySettings) -> None:
    settings.CHAT_EXPORT_ROWS_INLINE = 3


@pytest.mark.usefixtures("few_inline")
def test_a_large_export_becomes_a_job_that_is_downloaded_when_it_is_done(client: Client) -> None:
    sessions(2)
    answer = client.post(new_url(), asked("messages", reason="why"), follow=True)
    assert [str(each) for each in answer.context["messages"]] == [
        "more than 3 rows will be written in the background; they can be downloaded here."
    ]
    job = ExportJob.objects.get()
    assert (job.kind, job.format, job.with_text, job.status) == (
        "messages",
        "jsonl",
        False,
        "queued",
    )
    event = AuditEvent.objects.get(action="export.queue")
    assert (event.object_id, event.reason) == (str(job.pk), "why")
    assert client.get(file_url(job)).status_code == 404
    export_jobs.run_due_exports()
    assert "Download" in text_of(client.get(list_url(ExportJob)))
    got = client.get(file_url(job))
    job.refresh_from_db()
    assert got["Content-Length"] == str(job.size)
    assert len(lines_of(got)) == 4
    assert AuditEvent.objects.filter(action="export.file", object_id=str(job.pk)).count() == 1


@pytest.mark.usefixtures("few_inline")
def test_an_export_at_the_limit_is_still_downloaded_at_once(client: Client) -> None:
    sessions(3)
    assert len(lines_of(client.post(new_url(), asked()))) == 3
    assert not ExportJob.objects.exists()
    sessions(1)
    page = text_of(client.get(new_url()))
    assert "Sessions: more than 3" in page


def done_job(owner: Any) -> ExportJob:
    sessions(1)
    job = ExportJob.objects.create(
        owner=owner,
        kind="messages",
        format="csv",
        filter={"list": "chatsession", "query": "q=term"},
    )
    if not owner.is_superuser:
        job.tenants.set([builders.tenant("default")])
    export_jobs.run_due_exports()
    job.refresh_from_db()
    assert job.status == "done"
    return job


def test_somebody_else_s_job_is_as_unknown_as_one_that_does_not_exist() -> None:
    owner, other = viewer(METADATA), builders.superuser()
    job = done_job(owner)
    client = signed_in(other)
    for address in (file_url, remove_url):
        answers = []
        for target in (job, uuid.uuid4()):
            with CaptureQueriesContext(connection) as queries:
                method = client.get if address is file_url else client.post
                answer = method(address(target))
            answers.append((answer.status_code, len(queries)))
        assert answers[0] == answers[1]
        assert answers[0][0] == 404
    assert rows_of(client.get(list_url(ExportJob))) == []
    assert ExportJob.objects.filter(pk=job.pk).exists()
    assert rows_of(signed_in(owner).get(list_url(ExportJob))) == [job]


def test_a_file_is_not_given_out_when_its_time_or_the_permission_is_over() -> None:
    owner = viewer(METADATA)
    job = done_job(owner)
    client = signed_in(owner)
    assert client.get(file_url(job)).status_code == 200
    owner.memberships.all().delete()
    assert client.get(file_url(job)).status_code == 404
    owner.memberships.create(tenant=builders.tenant("default"))
    ExportJob.objects.filter(pk=job.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert client.get(file_url(job)).status_code == 404
    owner.user_permissions.clear()
    assert client.get(file_url(job)).status_code == 403


def test_a_file_with_text_is_closed_with_the_text(client: Client, settings: LazySettings) -> None:
    job = done_job(builders.superuser("other"))
    ExportJob.objects.filter(pk=job.pk).update(with_text=True)
    signed = signed_in(job.owner)
    assert signed.get(file_url(job)).status_code == 200
    settings.CHAT_STAFF_CONTENT = False
    assert signed.get(file_url(job)).status_code == 404


def test_a_job_s_page_shows_what_it_holds_and_deletes_it(client: Client) -> None:
    root = signed_in(person := builders.superuser("owner"))
    job = done_job(person)
    page = text_of(root.get(reverse("admin:chat_exportjob_change", args=[job.pk])))
    for text in ("Messages, CSV", "chatsession q=term", "Download", "Delete export"):
        assert text in page
    assert root.get(remove_url(job)).status_code == 405
    assert root.post(remove_url(job)).status_code == 302
    assert not ExportJob.objects.exists()
    assert not export_files.path_of(job.file).exists()
    assert AuditEvent.objects.filter(action="export.delete", object_id=str(job.pk)).exists()


def test_jobs_are_deleted_from_their_list() -> None:
    client = signed_in(person := builders.superuser("owner"))
    jobs = [done_job(person), done_job(person)]
    given = {"action": "delete_exports", "_selected_action": [str(job.pk) for job in jobs]}
    answer = client.post(list_url(ExportJob), given, follow=True)
    assert "Deleted 2 exports." in text_of(answer)
    assert not ExportJob.objects.exists()
    assert not any(export_files.path_of(job.file).exists() for job in jobs)


def test_the_list_shows_how_far_a_job_is(client: Client) -> None:
    root = signed_in(person := builders.superuser("owner"))
    ExportJob.objects.create(
        owner=person, kind="messages", format="csv", status="running", total=4000, rows=1000
    )
    page = text_of(root.get(list_url(ExportJob)))
    assert '<progress max="4000" value="1000" aria-label="Rows written"></progress>' in page
    assert "1,000 of 4,000" in page
