"""`manage.py bootstrap`: the rows that a new installation starts with."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from chat import bootstrap


class Command(BaseCommand):
    help = (
        "Make the default tenant and, from OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL, an"
        " endpoint with an assistant. Running it again changes nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--demo",
            action="store_true",
            help="Also make the demo model's assistants and the users admin, alice and bob.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        for text in bootstrap.run(demo=options["demo"]):
            self.stdout.write(text)
