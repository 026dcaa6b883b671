from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0012_reviews'),
    ]

    operations: list = []
