"""`manage.py reap_turns`: end turns whose server process has died."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from chat import retention


class Command(BaseCommand):
    help = (
        "End running turns whose process is dead or silent for longer than its lease as"
        " interrupted; the text that they stored is kept. Run it every few minutes."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"Turns ended as interrupted: {retention.reap_turns()}")
