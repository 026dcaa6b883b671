"""Who looks at lists also sees what is due. A group that was changed since is left as it is."""

from importlib import import_module

from django.db import migrations

groups_made = import_module('chat.migrations.0014_review_groups')
FOLLOW_UPS = 'chat.followup'


def follow_ups(apps, alias):
    """The permission, made if it is not there: as Django will say it."""
    kinds = apps.get_model('contenttypes', 'ContentType').objects.using(alias)
    kind, _ = kinds.get_or_create(app_label='chat', model='followup')
    permissions = apps.get_model('auth', 'Permission').objects.using(alias)
    return permissions.get_or_create(
        content_type=kind, codename='view_followup', defaults={'name': 'Can view follow-up'}
    )[0]


def add(apps, schema_editor):
    alias = schema_editor.connection.alias
    allowed = follow_ups(apps, alias)
    groups = apps.get_model('auth', 'Group').objects.using(alias)
    for name, given in groups_made.GROUPS.items():
        for group in groups.filter(name=name):
            held = set(group.permissions.values_list('codename', flat=True))
            if held == {groups_made.codename(*each) for each in given}:
                group.permissions.add(allowed)


def take_back(apps, schema_editor):
    alias = schema_editor.connection.alias
    allowed = follow_ups(apps, alias)
    groups = apps.get_model('auth', 'Group').objects.using(alias)
    for group in groups.filter(name__in=groups_made.GROUPS):
        group.permissions.remove(allowed)


class Migration(migrations.Migration):
    dependencies = [
        ('chat', '0017_session_tallies'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
    ]

    operations = [migrations.RunPython(add, take_back)]
