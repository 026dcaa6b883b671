"""The newest sessions of one tenant, for staff who see that tenant alone."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0018_follow_ups_for_groups'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='chatsession',
            index=models.Index(
                fields=['tenant', '-last_active_at', '-id'], name='chat_session_of_tenant'
            ),
        ),
        migrations.AlterField(
            model_name='chatsession',
            name='tenant',
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name='chat_sessions',
                to='chat.tenant',
            ),
        ),
    ]
