"""Three groups for staff. On a new database the permissions do not exist yet: Django makes them
after the last migration, and takes over those that are made here."""

from django.db import migrations

NAMES = {  # as Django will say them: "Can view session"
    'chat.assistant': 'assistant',
    'chat.auditevent': 'audit event',
    'chat.chatmessage': 'message',
    'chat.chatsession': 'session',
    'chat.chatturn': 'turn',
    'chat.contextpart': 'context part',
    'chat.contextrecord': 'context record',
    'chat.dailyusage': 'daily usage',
    'chat.feedback': 'feedback',
    'chat.reviewnote': 'note',
    'chat.reviewscore': 'score',
    'chat.reviewtag': 'tag',
    'memory.conversationsummary': 'summary',
    'memory.memorysnapshot': 'memory snapshot',
    'memory.userdigest': 'digest',
    'memory.userpreference': 'preference',
}
OF_TEXT = {
    'read_message_content': 'Can read the text of messages and contexts',
    'view_context': 'Can see what requests were made of',
    'redact': 'Can redact messages',
    'manage_memory': 'Can change and delete what is remembered',
}
VIEWER = [('view', model) for model in NAMES]
REVIEWER = [
    *VIEWER,
    ('read_message_content', ''),
    ('view_context', ''),
    ('add', 'chat.reviewnote'),
    ('delete', 'chat.reviewnote'),
    ('add', 'chat.reviewscore'),
    ('change', 'chat.reviewscore'),
    ('add', 'chat.reviewtag'),
    ('change', 'chat.reviewtag'),
]
MEMORY_MANAGER = [
    *VIEWER,
    ('read_message_content', ''),
    ('view_context', ''),
    ('manage_memory', ''),
    ('redact', ''),
    ('change', 'chat.chatsession'),
    *(
        (action, f'memory.{model}')
        for model in ('conversationsummary', 'userdigest', 'userpreference')
        for action in ('change', 'delete')
    ),
]
GROUPS = {'Viewer': VIEWER, 'Reviewer': REVIEWER, 'Memory manager': MEMORY_MANAGER}


def codename(action, model):
    """"view_chatsession"; the permissions without a model have a name of their own."""
    return f'{action}_{model.split(".")[1]}' if model else action


def permission(apps, alias, action, model):
    """The row of one permission, made if it is not there."""
    label = model or 'chat.chatmessage'
    app, model_name = label.split('.')
    kinds = apps.get_model('contenttypes', 'ContentType').objects.using(alias)
    kind, _ = kinds.get_or_create(app_label=app, model=model_name)
    permissions = apps.get_model('auth', 'Permission').objects.using(alias)
    return permissions.get_or_create(
        content_type=kind,
        codename=codename(action, model),
        defaults={'name': f'Can {action} {NAMES[label]}' if model else OF_TEXT[action]},
    )[0]


def add_groups(apps, schema_editor):
    """A group that is there already under one of the names is somebody's own, and stays as it is."""
    alias = schema_editor.connection.alias
    groups = apps.get_model('auth', 'Group').objects.using(alias)
    for name, wanted in GROUPS.items():
        group, made = groups.get_or_create(name=name)
        if made:
            group.permissions.set([permission(apps, alias, *each) for each in wanted])


def remove_groups(apps, schema_editor):
    """Only as they were made: a group that staff changed is theirs."""
    alias = schema_editor.connection.alias
    groups = apps.get_model('auth', 'Group').objects.using(alias)
    for name, wanted in GROUPS.items():
        made = {codename(*each) for each in wanted}
        for group in groups.filter(name=name):
            if made == set(group.permissions.values_list('codename', flat=True)):
                group.delete()


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0013_search_index'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
    ]

    operations = [migrations.RunPython(add_groups, remove_groups)]
