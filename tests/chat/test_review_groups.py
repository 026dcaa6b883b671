"""The groups that a migration makes: what they may, on every engine, and back."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.db import connection

pytestmark = pytest.mark.django_db

migration = importlib.import_module("chat.migrations.0014_review_groups")
follow_ups = importlib.import_module("chat.migrations.0018_follow_ups_for_groups")
editor = SimpleNamespace(connection=connection)
READING = {"read_message_content", "view_context"}


def may(name: str) -> set[str]:
    return set(Group.objects.get(name=name).permissions.values_list("codename", flat=True))


def test_a_viewer_only_looks() -> None:
    assert {codename.split("_")[0] for codename in may("Viewer")} == {"view"}
    assert "view_context" not in may("Viewer")


def test_a_reviewer_reads_and_says_what_they_think() -> None:
    assert may("Reviewer") - may("Viewer") == READING | {
        "add_reviewnote",
        "delete_reviewnote",
        "add_reviewscore",
        "change_reviewscore",
        "add_reviewtag",
        "change_reviewtag",
    }


def test_a_memory_manager_reads_and_changes_what_is_remembered() -> None:
    changes = {
        f"{action}_{model}"
        for action in ("change", "delete")
        for model in ("conversationsummary", "userdigest", "userpreference")
    }
    more = {"manage_memory", "redact", "change_chatsession"}
    assert may("Memory manager") - may("Viewer") == READING | changes | more


def test_nobody_is_given_an_export_or_a_deletion_of_sessions() -> None:
    for name in migration.GROUPS:
        assert not may(name) & {"export_text", "export_metadata", "delete_chatsession"}


def test_the_permissions_are_called_as_django_calls_them() -> None:
    for name in migration.GROUPS:
        for permission in Group.objects.get(name=name).permissions.select_related("content_type"):
            kind = permission.content_type
            model = apps.get_model(kind.app_label, kind.model)
            own = dict(model._meta.permissions)
            action = permission.codename.split("_")[0]
            called = own.get(permission.codename) or f"Can {action} {model._meta.verbose_name}"
            assert permission.name == called


@pytest.fixture
def as_first_made() -> None:
    """Before a later migration gave the groups more."""
    follow_ups.take_back(apps, editor)


@pytest.mark.usefixtures("as_first_made")
def test_it_makes_permissions_that_are_not_there_yet() -> None:
    before = {name: may(name) for name in migration.GROUPS}
    Group.objects.all().delete()
    Permission.objects.filter(content_type__app_label__in=["chat", "memory"]).delete()
    migration.add_groups(apps, editor)
    assert {name: may(name) for name in migration.GROUPS} == before


@pytest.mark.usefixtures("as_first_made")
def test_going_back_removes_the_groups_as_they_were_made() -> None:
    migration.remove_groups(apps, editor)
    assert not Group.objects.filter(name__in=migration.GROUPS).exists()
    migration.add_groups(apps, editor)
    assert Group.objects.filter(name__in=migration.GROUPS).count() == 3


@pytest.mark.usefixtures("as_first_made")
def test_a_group_that_staff_made_or_changed_is_left_alone() -> None:
    viewer = Group.objects.get(name="Viewer")
    viewer.permissions.add(Permission.objects.get(codename="export_metadata"))
    migration.remove_groups(apps, editor)
    assert list(Group.objects.filter(name__in=migration.GROUPS)) == [viewer]
    viewer.permissions.clear()
    migration.add_groups(apps, editor)
    assert may("Viewer") == set()


def test_every_group_sees_what_is_due_and_one_that_was_changed_is_left_as_it_is() -> None:
    for name in migration.GROUPS:
        assert "view_followup" in may(name)
    follow_ups.take_back(apps, editor)
    changed = Group.objects.get(name="Viewer")
    changed.permissions.remove(changed.permissions.get(codename="view_dailyusage"))
    follow_ups.add(apps, editor)
    assert "view_followup" in may("Reviewer")
    assert "view_followup" not in may("Viewer")
