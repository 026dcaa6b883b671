"""The one tenant that everybody without a membership belongs to."""

from django.db import migrations


def make_default_tenant(apps, schema_editor):
    tenant = apps.get_model("chat", "Tenant")
    tenant.objects.get_or_create(slug="default", defaults={"name": "Default"})


class Migration(migrations.Migration):
    dependencies = [("chat", "0001_conversations")]

    operations = [migrations.RunPython(make_default_tenant, migrations.RunPython.noop)]
