"""`manage.py reap_turns`: end turns whose server process has died; finish what was put off."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from chat import retention
from chat.retention import removals


class Command(BaseCommand):
    help = (
        "End running turns whose process is dead or silent for longer than its lease as"
        " interrupted; the text that they stored is kept. What a deletion could not yet remove from"
        " the cache or the disk is tried again, and images that nobody sent for a day go. Run it"
        " every few minutes."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"Turns ended as interrupted: {retention.reap_turns()}")
        if forgotten := retention.remove_forgotten():
            self.stdout.write(f"Images removed that nobody sent for a day: {forgotten}")
        done, left = removals.retry()
        if done or left:
            self.stdout.write(f"Removed from other stores: {done}; still to be removed: {left}")
