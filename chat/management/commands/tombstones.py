"""`manage.py tombstones`: keep what was deleted outside of the database, and delete it again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat.retention import tombstones


class Command(BaseCommand):
    help = (
        "Write what was deleted to a file (keep it apart from the backups), or delete it again"
        " after an older backup was restored. The file names sessions by id and everything else by"
        " a hash under CHAT_PROOF_KEY."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--export", type=Path, metavar="FILE", help="Write to this file.")
        which.add_argument("--replay", type=Path, metavar="FILE", help="Read from this file.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["export"] is not None:
                self.export(options["export"])
            else:
                self.replay(options["replay"])
        except OSError as error:
            raise CommandError(f"The file cannot be used: {error}") from None

    def export(self, path: Path) -> None:
        """Written beside and moved into place, so that no half file is ever there."""
        new, count = path.with_name(f"{path.name}.new"), 0
        with new.open("w", encoding="utf-8") as file:
            for line in tombstones.export():
                file.write(f"{line}\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        self.stdout.write(f"Deletions written to {path}: {count}")

    def replay(self, path: Path) -> None:
        try:
            with path.open(encoding="utf-8") as file:
                deletions = tombstones.read(file)
        except tombstones.BadLine as bad:
            raise CommandError(f"{path}: {bad}. Nothing was deleted.") from None
        for kind, count in tombstones.replay(deletions).items():
            self.stdout.write(f"Deleted again, {kind}: {count}")
