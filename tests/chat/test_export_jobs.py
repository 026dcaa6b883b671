"""Exports in the background: claimed once, begun anew after a death, private, and gone in time."""

from __future__ import annotations

import json
import os
import stat
import threading
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.utils import timezone

from chat.access import staff_tenants
from chat.models import AuditEvent, ExportJob, PendingRemoval
from chat.transfer import export_files, export_jobs, export_pages
from tests import builders
from tests.chat.admin_site import VIEWS

pytestmark = pytest.mark.django_db

METADATA, TEXT, READ = "chat.export_metadata", "chat.export_text", "chat.read_message_content"
Status = ExportJob.Status


@pytest.fixture(autouse=True)
def media(settings: LazySettings, tmp_path: Path) -> Path:
    settings.MEDIA_ROOT = tmp_path
    return tmp_path


def exporter(*permissions: str, tenants: Any = ()) -> Any:
    home = tenants or [builders.tenant("default")]
    return builders.staff(tenants=home, permissions=[*VIEWS, METADATA, *permissions])


def job_of(owner: Any, kind: str = "messages", **fields: Any) -> ExportJob:
    fields.setdefault("filter", {"list": "chatsession", "query": ""})
    made = ExportJob.objects.create(owner=owner, kind=kind, format="jsonl", **fields)
    if not owner.is_superuser:
        made.tenants.set(staff_tenants(owner))
    return made


def files() -> list[Path]:
    return [path for path in export_files.path_of("exports").glob("*/*") if path.is_file()]


def lines_of(job: ExportJob) -> list[dict[str, Any]]:
    text = export_files.path_of(job.file).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def sessions(count: int, **fields: Any) -> list[Any]:
    assistant = builders.assistant()
    made = [builders.chat_session(assistant=assistant, **fields) for _ in range(count)]
    for each in made:
        builders.exchange(each)
    return made


# --- Written --------------------------------------------------------------------------------------


def test_a_job_is_written_whole_and_says_so(settings: LazySettings) -> None:
    settings.CHAT_EXPORT_HOURS = 3
    sessions(4)
    job = job_of(exporter())
    assert export_jobs.run_due_exports() == 1
    job.refresh_from_db()
    assert (job.status, job.rows, job.total) == (Status.DONE, 8, 8)
    assert len(lines_of(job)) == 8
    assert job.size == export_files.path_of(job.file).stat().st_size
    assert job.claimed_by == ""
    assert job.expires_at is not None
    left = job.expires_at - timezone.now()
    assert timedelta(hours=2, minutes=59) < left <= timedelta(hours=3)
    event = AuditEvent.objects.get(action="export.done")
    assert (event.actor, event.object_id, event.count) == (job.owner, str(job.pk), 8)
    assert event.filter == {"kind": "messages", "format": "jsonl", "text": False}
    assert export_jobs.run_due_exports() == 0


def test_the_file_is_the_server_s_alone_under_a_name_that_says_nothing() -> None:
    sessions(1)
    job = job_of(exporter())
    export_jobs.run_due_exports()
    job.refresh_from_db()
    path = export_files.path_of(job.file)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert str(job.pk) not in job.file
    assert job.pk.hex not in job.file


def test_a_job_holds_the_rows_of_the_list_with_its_filter() -> None:
    sessions(3)
    flagged = sessions(2, review_state="flagged")
    job = job_of(exporter(), filter={"list": "chatsession", "query": "review=flagged"})
    export_jobs.run_due_exports()
    job.refresh_from_db()
    assert {row["session"] for row in lines_of(job)} == {str(each.pk) for each in flagged}


def test_a_job_of_a_search_that_finds_more_than_it_lists_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat.admin.sessions.MOST_HITS", 1)
    sessions(2, title="Trip")
    job = job_of(
        builders.superuser(), "sessions", filter={"list": "chatsession", "query": "q=Trip"}
    )
    export_jobs.run_due_exports()
    job.refresh_from_db()
    assert (job.status, job.error, job.rows) == ("done", "", 1)


def test_progress_is_seen_while_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_pages, "FIRST_ROWS", 2)
    monkeypatch.setattr(export_pages, "ROWS", 3)
    sessions(5)
    job = job_of(exporter())
    seen: list[tuple[int, int | None]] = []
    update = export_jobs._update

    def watch(claim: export_jobs.Claim, **changes: Any) -> None:
        update(claim, **changes)
        seen.append(ExportJob.objects.values_list("rows", "total").get(pk=job.pk))

    monkeypatch.setattr(export_jobs, "_update", watch)
    export_jobs.run_due_exports()
    assert [rows for rows, _ in seen][:5] == [0, 0, 2, 5, 8]
    assert {total for _, total in seen} == {10}


# --- Claims ---------------------------------------------------------------------------------------


def test_a_claimed_job_is_nobody_else_s() -> None:
    sessions(1)
    job_of(exporter())
    assert export_jobs.claim_next() is not None
    assert export_jobs.claim_next() is None


def test_the_job_of_a_dead_process_is_begun_anew_and_its_file_goes() -> None:
    sessions(2)
    job = job_of(exporter())
    dead = export_jobs.claim_next()
    assert dead is not None
    with export_files.create(dead.job.file) as file:
        file.write(b"half a line")
    ExportJob.objects.filter(pk=job.pk).update(claimed_until=timezone.now() - timedelta(seconds=1))
    assert export_jobs.run_due_exports() == 1
    job.refresh_from_db()
    assert job.status == Status.DONE
    assert len(lines_of(job)) == 4
    assert files() == [export_files.path_of(job.file)]


def test_a_process_that_was_only_slow_writes_nothing_more() -> None:
    sessions(2)
    job = job_of(exporter())
    slow = export_jobs.claim_next()
    assert slow is not None
    ExportJob.objects.filter(pk=job.pk).update(claimed_until=timezone.now() - timedelta(seconds=1))
    export_jobs.run_due_exports()
    assert export_jobs.run(slow) is False
    job.refresh_from_db()
    assert job.status == Status.DONE
    assert len(lines_of(job)) == 4
    assert files() == [export_files.path_of(job.file)]


def test_a_job_that_is_deleted_while_it_is_written_leaves_nothing() -> None:
    sessions(2)
    job = job_of(exporter())
    claim = export_jobs.claim_next()
    assert claim is not None
    export_jobs.delete(ExportJob.objects.get(pk=job.pk))
    assert export_jobs.run(claim) is False
    assert files() == []
    assert not PendingRemoval.objects.exists()


def test_a_failure_is_said_without_its_text_and_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sessions(1)
    job = job_of(exporter())

    def fail(*args: Any) -> bytes:
        raise ValueError("a text of somebody")

    monkeypatch.setattr(export_jobs.export_streams, "pieces", fail)
    assert export_jobs.run_due_exports() == 0
    job.refresh_from_db()
    assert job.status == Status.FAILED
    assert job.error == "It could not be written (ValueError); the server's log says more."
    assert job.file == ""
    assert files() == []
    assert f"Export {job.pk} failed" in caplog.text


# --- Who may --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "revoke",
    [
        {"is_staff": False},
        {"is_active": False},
    ],
)
def test_who_may_no_longer_export_gets_nothing(revoke: dict[str, bool]) -> None:
    sessions(1)
    owner = exporter()
    job = job_of(owner)
    type(owner).objects.filter(pk=owner.pk).update(**revoke)
    assert export_jobs.run_due_exports() == 0
    job.refresh_from_db()
    assert (job.status, job.error) == (
        Status.FAILED,
        "Whoever asked for this export may not have it any more.",
    )


def test_text_needs_its_permission_when_it_is_written(settings: LazySettings) -> None:
    (chat_session,) = sessions(1)
    allowed = job_of(exporter(READ, TEXT), with_text=True)
    refused = job_of(exporter(READ), with_text=True)
    export_jobs.run_due_exports()
    allowed.refresh_from_db()
    refused.refresh_from_db()
    assert lines_of(allowed)[0]["content"] == "Hello"
    assert lines_of(allowed)[0]["session"] == str(chat_session.pk)
    assert refused.status == Status.FAILED


def test_no_text_is_written_where_staff_may_see_none(settings: LazySettings) -> None:
    sessions(1)
    job = job_of(builders.superuser(), with_text=True)
    settings.CHAT_STAFF_CONTENT = False
    export_jobs.run_due_exports()
    job.refresh_from_db()
    assert job.status == Status.FAILED
    assert files() == []


def test_a_job_holds_the_tenants_that_it_was_asked_for_and_no_later_ones() -> None:
    home, other = builders.tenant("home"), builders.tenant("other")
    sessions(1, tenant=home)
    sessions(1, tenant=other)
    owner = exporter(tenants=[home])
    job = job_of(owner)
    owner.memberships.create(tenant=other)
    export_jobs.run_due_exports()
    job.refresh_from_db()
    assert {row["tenant"] for row in lines_of(job)} == {"home"}


def test_who_left_a_tenant_gets_nothing_of_it() -> None:
    home, other = builders.tenant("home"), builders.tenant("other")
    sessions(1, tenant=other)
    owner = exporter(tenants=[home, other])
    job = job_of(owner)
    owner.memberships.filter(tenant=other).delete()
    export_jobs.run_due_exports()
    job.refresh_from_db()
    assert job.status == Status.FAILED


# --- Going ----------------------------------------------------------------------------------------


def done_job(**fields: Any) -> ExportJob:
    sessions(1)
    job = job_of(fields.pop("owner", None) or exporter(READ, TEXT), **fields)
    export_jobs.run_due_exports()
    job.refresh_from_db()
    return job


def test_an_expired_file_goes_and_the_job_says_so() -> None:
    job = done_job()
    ExportJob.objects.filter(pk=job.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    export_jobs.run_due_exports()
    job.refresh_from_db()
    assert (job.status, job.file) == (Status.EXPIRED, "")
    assert files() == []
    assert not PendingRemoval.objects.exists()


def test_a_file_that_the_disk_keeps_is_removed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    job = done_job()
    name = job.file

    def refuse(*args: Any) -> None:
        raise OSError("read-only")

    monkeypatch.setattr("chat.retention.removals.default_storage.delete", refuse)
    export_jobs.delete(job)
    assert not ExportJob.objects.exists()
    assert PendingRemoval.objects.get().name == name


def test_old_jobs_leave_the_list() -> None:
    job = done_job()
    long_ago = timezone.now() - timedelta(days=31)
    ExportJob.objects.filter(pk=job.pk).update(status=Status.EXPIRED, file="", finished_at=long_ago)
    export_jobs.run_due_exports()
    assert not ExportJob.objects.exists()


def test_files_without_a_job_go_after_a_while() -> None:
    """As those of a person that was deleted."""
    job = done_job()
    fresh = export_files.new_name()
    for name in (fresh, export_files.new_name()):
        export_files.create(name).close()
    for path in files():
        if path != export_files.path_of(fresh):
            os.utime(path, (1, 1))
    export_jobs.run_due_exports()
    assert set(files()) == {export_files.path_of(job.file), export_files.path_of(fresh)}


def test_a_process_that_ends_gives_its_job_back() -> None:
    sessions(1)
    job = job_of(exporter())
    stopped = threading.Event()
    claim = export_jobs.claim_next()
    assert claim is not None
    stopped.set()
    assert export_jobs.run(claim, stopped) is False
    assert export_jobs.run_due_exports(stopped) == 0
    job.refresh_from_db()
    assert (job.status, job.claimed_by, files()) == (Status.QUEUED, "", [])
    assert export_jobs.run_due_exports() == 1


# --- The command ----------------------------------------------------------------------------------


def test_the_command_writes_what_waits() -> None:
    sessions(1)
    job_of(exporter())
    job_of(exporter())
    out = StringIO()
    call_command("run_exports", stdout=out)
    assert out.getvalue() == "Exports written: 2\n"
    assert set(ExportJob.objects.values_list("status", flat=True)) == {Status.DONE}


def test_the_command_in_a_loop_goes_on_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions(1)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt
        job_of(exporter())

    monkeypatch.setattr("chat.management.commands.run_exports.time.sleep", pause)
    monkeypatch.setattr("chat.management.commands.run_exports.close_old_connections", lambda: None)
    out = StringIO()
    with pytest.raises(KeyboardInterrupt):
        call_command("run_exports", "--loop", stdout=out)
    assert out.getvalue() == "Exports written: 1\nExports written: 1\n"
