"""Documents of assistants; whether an answer follows its output schema."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0005_idle_line"),
    ]

    operations = [
        migrations.AddField(
            model_name="chatturn",
            name="follows_schema",
            field=models.BooleanField(
                blank=True,
                help_text="Unknown: no schema was asked for, or the answer was not finished.",
                null=True,
                verbose_name="follows the output schema",
            ),
        ),
        migrations.AddField(
            model_name="chatturn",
            name="schema_error",
            field=models.CharField(
                blank=True,
                help_text="What the schema says, never what the answer says.",
                max_length=500,
            ),
        ),
        migrations.AlterField(
            model_name="assistant",
            name="output_schema",
            field=models.JSONField(
                blank=True,
                help_text=(
                    "JSON Schema that answers must follow; empty = free text. Each answer is "
                    "checked, and one that does not follow it says so."
                ),
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="modelendpoint",
            name="strict_roles",
            field=models.BooleanField(
                default=False,
                help_text=(
                    "It takes no system message, and nothing but user and assistant in turns, a "
                    "user first. The prompt then stands in a marked block at the head of the "
                    "first user message."
                ),
            ),
        ),
        migrations.AlterField(
            model_name="modelendpoint",
            name="supports_json_schema",
            field=models.BooleanField(
                default=False,
                help_text=(
                    "It takes response_format with a JSON Schema. Else an output schema is "
                    "written into the system text."
                ),
            ),
        ),
        migrations.CreateModel(
            name="AssistantDocument",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "name",
                    models.CharField(help_text="As passages name their source.", max_length=200),
                ),
                ("text", models.TextField()),
                ("sha256", models.CharField(editable=False, max_length=64, verbose_name="SHA-256")),
                ("size", models.PositiveIntegerField(editable=False, help_text="Bytes of UTF-8.")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "assistant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="documents",
                        to="chat.assistant",
                    ),
                ),
            ],
            options={
                "verbose_name": "document",
                "ordering": ["assistant", "name"],
                "constraints": [
                    models.UniqueConstraint(fields=("assistant", "name"), name="chat_document_name")
                ],
            },
        ),
    ]
