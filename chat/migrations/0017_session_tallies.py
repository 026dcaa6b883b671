"""Counters of how a session's turns ended and were rated, with indexes for the lists of them."""

from django.db import migrations, models
from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

TURNS = {"failed_turns": "failed", "interrupted_turns": "interrupted", "stopped_turns": "stopped"}
VOTES = {"good_votes": 1, "bad_votes": -1}


def count(rows, by):
    return Coalesce(Subquery(rows.order_by().values(by).annotate(n=Count("pk")).values("n")), 0)


def count_what_is_there(apps, schema_editor):
    session, turn, vote = (
        apps.get_model("chat", name) for name in ("ChatSession", "ChatTurn", "Feedback")
    )
    turns = turn.objects.filter(chat_session=OuterRef("pk"))
    votes = vote.objects.filter(turn__chat_session=OuterRef("pk"))
    counted = {name: count(turns.filter(status=s), "chat_session") for name, s in TURNS.items()}
    counted |= {name: count(votes.filter(value=v), "turn__chat_session") for name, v in VOTES.items()}
    session.objects.update(**counted)


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0016_search_lengths'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='chatsession',
            name='chat_session_review',
        ),
        migrations.AddField(
            model_name='chatsession',
            name='bad_votes',
            field=models.PositiveIntegerField(default=0, verbose_name='rated bad'),
        ),
        migrations.AddField(
            model_name='chatsession',
            name='failed_turns',
            field=models.PositiveIntegerField(default=0, verbose_name='failed'),
        ),
        migrations.AddField(
            model_name='chatsession',
            name='good_votes',
            field=models.PositiveIntegerField(default=0, verbose_name='rated good'),
        ),
        migrations.AddField(
            model_name='chatsession',
            name='interrupted_turns',
            field=models.PositiveIntegerField(default=0, verbose_name='interrupted'),
        ),
        migrations.AddField(
            model_name='chatsession',
            name='stopped_turns',
            field=models.PositiveIntegerField(default=0, verbose_name='stopped'),
        ),
        migrations.RunPython(count_what_is_there, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name='chatsession',
            index=models.Index(fields=['review_state', 'created_at', 'id'], name='chat_session_review'),
        ),
        migrations.AddIndex(
            model_name='chatsession',
            index=models.Index(condition=models.Q(('is_held', True)), fields=['-last_active_at', '-id'], name='chat_session_held'),
        ),
        migrations.AddIndex(
            model_name='chatsession',
            index=models.Index(condition=models.Q(('is_archived', True)), fields=['-last_active_at', '-id'], name='chat_session_archived'),
        ),
        migrations.AddIndex(
            model_name='chatsession',
            index=models.Index(condition=models.Q(('is_temporary', True)), fields=['-last_active_at', '-id'], name='chat_session_temporary'),
        ),
        migrations.AddIndex(
            model_name='chatsession',
            index=models.Index(condition=models.Q(('memory_enabled', False)), fields=['-last_active_at', '-id'], name='chat_session_forgetful'),
        ),
        migrations.AddIndex(
            model_name='chatsession',
            index=models.Index(condition=models.Q(('failed_turns__gt', 0), ('interrupted_turns__gt', 0), _connector='OR'), fields=['-last_active_at', '-id'], name='chat_session_errors'),
        ),
        migrations.AddIndex(
            model_name='chatsession',
            index=models.Index(condition=models.Q(('bad_votes__gt', 0)), fields=['-last_active_at', '-id'], name='chat_session_bad'),
        ),
        migrations.AddIndex(
            model_name='chatsession',
            index=models.Index(condition=models.Q(('good_votes__gt', 0)), fields=['-last_active_at', '-id'], name='chat_session_good'),
        ),
    ]
