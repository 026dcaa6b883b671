from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0013_search_index'),
    ]

    operations: list = []
