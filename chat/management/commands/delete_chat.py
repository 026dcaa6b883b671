"""`manage.py delete_chat SESSION`: delete a session with everything that derives from it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat import leases, retention
from chat.management import arguments
from chat.models import ChatSession
from chat.retention import receipts


class Command(BaseCommand):
    help = (
        "Delete a session for good: messages, turns, what was sent to the model, feedback and"
        " memory. Preferences stay. A running answer does not hold it up."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session", type=arguments.session_id, help="The session's id.")
        parser.add_argument(
            "--yes",
            "--no-input",
            action="store_false",
            dest="interactive",
            help="Do not ask for confirmation.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        session_id = options["session"]
        found = ChatSession.objects.select_related("user").filter(pk=session_id).first()
        if found is None:
            raise CommandError(f"There is no session {session_id}.")
        if options["interactive"]:
            confirm(found)
        try:
            receipt = retention.forget_session(session_id, reason="delete_chat command")
        except leases.Gone:
            raise CommandError(f"Session {session_id} was deleted by somebody else.") from None
        self.stdout.write(f"Deleted session {session_id}: {receipts.in_words(receipt)}")


def confirm(chat_session: ChatSession) -> None:
    question = (
        f"Delete session {chat_session.pk} of {chat_session.user.get_username()} with"
        f" {chat_session.message_count} messages for good? Type yes: "
    )
    try:
        answer = input(question)
    except EOFError:
        raise CommandError("Nobody answered; nothing was deleted. Use --yes in scripts.") from None
    if answer.strip().lower() != "yes":
        raise CommandError("Nothing was deleted.")
