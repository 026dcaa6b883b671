"""`manage.py explain_context SESSION`: what a turn sent, what it left out, and why."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat import records
from chat.management import arguments
from chat.models import ChatSession, ChatTurn, ContextRecord
from chat.turns import Refused, requests
from chat.turns.policies import switches

SWITCHES = ("enabled", "summarize", "use_preferences", "use_digest")
NUMBERS = ("max_messages", "max_tokens", "stride")
PROOFS = {
    "ok": "rebuilt exactly, and proven",
    "mismatch": "NOT what was sent: a text was changed since, or CHAT_PROOF_KEY is another one",
    "missing": "not complete: texts of it were removed",
}


def change(text: str) -> tuple[str, Any]:
    """`max_messages=50`, `max_tokens=none`, `enabled=no`: one field of the policy."""
    name, _, value = text.partition("=")
    if name in SWITCHES and value in ("yes", "no"):
        return name, value == "yes"
    if name in NUMBERS and value.isdecimal() and len(value) < 10:
        return name, int(value)
    if name in NUMBERS[:2] and value == "none":
        return name, None
    raise argparse.ArgumentTypeError(
        f"{text!r} is not understood: give {', '.join(f'{each}=N' for each in NUMBERS)} or"
        f" {', '.join(f'{each}=yes|no' for each in SWITCHES)}"
    )


class Command(BaseCommand):
    help = (
        "Print the parts of a turn's request with their tokens, and the ranges of the history that"
        " were left out with the reason. With --what-if: the same turn under another policy;"
        " nothing is written and no model is called."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session", type=arguments.session_id, help="The session's id.")
        parser.add_argument("--turn", type=int, help="The number of a turn; without: the newest.")
        parser.add_argument(
            "--what-if", type=change, nargs="+", action="extend", default=[], metavar="NAME=VALUE"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        turn = self._turn(options["session"], options["turn"])
        self.stdout.write(f"Session {turn.chat_session_id}, turn {turn.number} ({turn.status})")
        if options["what_if"]:
            self._what_if(turn, dict(options["what_if"]))
            return
        self._requests(turn)
        self._switches(turn.chat_session)

    def _requests(self, turn: ChatTurn) -> None:
        attempts = list(ContextRecord.objects.filter(turn=turn).order_by("attempt"))
        if not attempts:
            raise CommandError(f"Turn {turn.number} has no record of what was sent.")
        for record in attempts:
            proof = PROOFS[records.rebuild(record).proof]
            self.stdout.write(f"Request {record.attempt} to {turn.model_name}: {proof}")
            self._manifest(record.manifest)

    def _turn(self, session_id: Any, number: int | None) -> ChatTurn:
        if not ChatSession.objects.filter(pk=session_id).exists():
            raise CommandError(f"There is no session {session_id}.")
        turns = ChatTurn.objects.filter(chat_session=session_id).select_related(
            "input", "chat_session__assistant"
        )
        found = (
            turns.order_by("number").last()
            if number is None
            else turns.filter(number=number).first()
        )
        if found is None:
            wanted = "any turn" if number is None else f"a turn {number}"
            raise CommandError(f"Session {session_id} does not have {wanted}.")
        return found

    def _what_if(self, turn: ChatTurn, changes: dict[str, Any]) -> None:
        try:
            assembled = requests.what_if(turn, **changes)
        except (Refused, ValueError) as refused:
            raise CommandError(f"Under this policy nothing would be sent: {refused}") from None
        shown = ", ".join(f"{name}={value}" for name, value in changes.items())
        self.stdout.write(f"If {shown} (prompt, preferences and passages as they are today):")
        self._manifest(assembled.manifest)

    def _switches(self, chat_session: ChatSession) -> None:
        shown = [f"{each.name}={each.value} ({each.source})" for each in switches(chat_session)]
        self.stdout.write(f"Switches of the session today: {', '.join(shown)}")

    def _manifest(self, manifest: dict[str, Any]) -> None:
        self.stdout.write(
            f"  {manifest['tokens']} of {manifest['budget']} tokens ({manifest['encoding']}),"
            f" window from {manifest['source']}"
        )
        for part in manifest["parts"]:
            seq = f" {part['seq']}" if "seq" in part else ""
            mark = f" [{part['mark']}]" if "mark" in part else ""
            self.stdout.write(f"  + {part['kind']}{seq}, {part['role']}: {part['tokens']}{mark}")
        self._beside(manifest)
        for gap in manifest["left_out"]:
            self.stdout.write(f"  - messages {gap['from']} to {gap['through']}: {gap['reason']}")
        for preference in manifest["preferences"]:
            self.stdout.write(f"  * preference {preference['id']}: {preference['key']}")
        for preference in manifest["preferences_left_out"]:
            self.stdout.write(
                f"  - preference {preference['id']} ({preference['key']}): {preference['reason']}"
            )
        self._references(manifest)

    def _beside(self, manifest: dict[str, Any]) -> None:
        if schema := manifest.get("output_schema"):
            self.stdout.write(f"  + output schema, as {schema['sent_as']}: {schema['tokens']}")
        if offered := manifest.get("tools"):
            self.stdout.write(f"  + tools {', '.join(offered['names'])}: {offered['tokens']}")
        if summary := manifest.get("summary"):
            covers = f"messages {summary['covers_from']} to {summary['covers_through']}"
            self.stdout.write(f"  * summary {summary['version']} of {covers}: {summary['tokens']}")
        if digest := manifest.get("digest"):
            self.stdout.write(f"  * digest of the user: {digest['tokens']}")
        for name in ("summary", "digest"):
            if reason := manifest.get(f"{name}_left_out"):
                self.stdout.write(f"  - {name}: {reason}")

    def _references(self, manifest: dict[str, Any]) -> None:
        for each in manifest.get("references", ()):
            self.stdout.write(f"  * passage {each['rank']}, {each['source']}: {each['tokens']}")
        for each in manifest.get("references_left_out", ()):
            self.stdout.write(f"  - passage {each['rank']}, {each['source']}: {each['reason']}")
        if manifest.get("evidence") not in (None, "found"):
            self.stdout.write(f"  - no passage: {manifest['evidence']}")
        for name in manifest.get("references_failed", ()):
            self.stdout.write(f"  - the source {name} failed")
