"""`manage.py reap_turns`: end turns whose server process has died; finish what was put off."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from chat import retention
from chat.management.runs import recorded
from chat.retention import removals


class Command(BaseCommand):
    help = (
        "End running turns whose process is dead or silent for longer than its lease as"
        " interrupted; the text that they stored is kept. What a deletion could not yet remove from"
        " the cache or the disk is tried again, and images that nobody sent for a day go. Run it"
        " every few minutes."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with recorded("reap_turns") as run:
            ended = retention.reap_turns()
            self.stdout.write(f"Turns ended as interrupted: {ended}")
            if forgotten := retention.remove_forgotten():
                self.stdout.write(f"Images removed that nobody sent for a day: {forgotten}")
            done, left = removals.retry()
            counts = {"turns": ended, "images": forgotten, "removed": done, "left": left}
            run.counts = {name: count for name, count in counts.items() if count}
        if done or left:
            self.stdout.write(f"Removed from other stores: {done}; still to be removed: {left}")
