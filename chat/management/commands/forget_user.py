"""`manage.py forget_user USER`: delete everything about a person, and look whether it is gone."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat import retention
from chat.models import DeletionReceipt
from chat.retention import database_files, people, receipts, removals, verification
from chat.retention.people import Person
from chat.retention.verification import Findings, Needles


class Command(BaseCommand):
    help = (
        "Delete everything about a person: conversations, images, preferences, what is remembered,"
        " sign-ins, log entries and the account, and print the receipt. Running answers end."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="The user name.")
        parser.add_argument(
            "--keep-account",
            action="store_true",
            help="Keep the account, its memberships and sign-ins; delete what was said and is"
            " remembered.",
        )
        parser.add_argument(
            "--yes",
            "--no-input",
            action="store_false",
            dest="interactive",
            help="Do not ask for confirmation.",
        )
        parser.add_argument(
            "--verify",
            action="store_true",
            help="Search every table, the cache, the files and SQLite's own file for the person's"
            " names afterwards; exit code 1 if anything is found.",
        )
        parser.add_argument(
            "--only-verify",
            action="store_true",
            help="The same search without deleting anything: also where the account is gone.",
        )
        parser.add_argument(
            "--search",
            nargs="+",
            default=[],
            metavar="TEXT",
            help="With --verify or --only-verify: search for these texts as well.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user_model()._default_manager.filter(**by_name(options["user"])).first()
        self.refuse_unclear(options)
        if options["only_verify"]:
            if user is None:
                self.stdout.write(f"There is no user {options['user']!r}: looking for the name.")
            self.verify(None, remaining(options, user))
        elif user is None:
            raise CommandError(f"There is no user {options['user']!r}.")
        else:
            self.forget(user, options)

    def refuse_unclear(self, options: dict[str, Any]) -> None:
        """Before anything is deleted: whether the options say what to look for."""
        if options["search"] and not (options["verify"] or options["only_verify"]):
            raise CommandError("--search says what --verify looks for; give both.")
        if not all(options["search"]):
            raise CommandError("--search has an empty text, which is everywhere; leave it out.")
        looks = options["verify"] or options["only_verify"]
        if looks and options["keep_account"] and not options["search"]:
            raise CommandError(
                "With --keep-account the names stay, so --verify has nothing to look for; say with"
                " --search what should be gone."
            )

    def forget(self, user: Any, options: dict[str, Any]) -> None:
        if options["interactive"]:
            self.confirm(user, keeps_account=options["keep_account"])
        person = Person.of(user)
        receipt = retention.forget_user(
            person.id, keep_account=options["keep_account"], reason="forget_user command"
        )
        removals.retry()
        self.stdout.write(f"Receipt {receipt.pk}: {receipts.in_words(receipt)}")
        self.stdout.write(database_files.clean())
        self.stdout.write(verification.BACKUPS)
        if options["verify"]:
            self.verify(receipt, needles_of(person, options))

    def confirm(self, user: Any, *, keeps_account: bool) -> None:
        for name, count in people.survey(user).items():
            self.stdout.write(f"{name}: {count}")
        rest = "the account stays" if keeps_account else "and the account"
        question = f"Delete all of this, {rest}, for good? Type the user name: "
        try:
            answer = input(question)
        except EOFError:
            raise CommandError(
                "Nobody answered; nothing was deleted. Use --yes in scripts."
            ) from None
        if answer.strip() != user.get_username():
            raise CommandError("Nothing was deleted.")

    def verify(self, receipt: DeletionReceipt | None, needles: Needles) -> None:
        findings = verification.verify(needles, receipt)
        self.stdout.write(told(findings))
        for each in findings.skipped:
            self.stdout.write(each)
        if findings.found:
            raise CommandError(f"{STILL_THERE}: {findings.in_words}")
        self.stdout.write("Nothing was found.")


STILL_THERE = (
    "Something is still there (places, how often, ids of the rows; what other people wrote is"
    " theirs)"
)


def by_name(name: str) -> dict[str, str]:
    return {get_user_model().USERNAME_FIELD: name}


def needles_of(person: Person, options: dict[str, Any]) -> Needles:
    """What must be gone: with the account kept, only what was given."""
    if options["keep_account"]:
        return Needles(options["search"])
    return Needles(options["search"], person.names, [person.id])


def remaining(options: dict[str, Any], user: Any) -> Needles:
    """What would be gone after a deletion of the person, who may be gone already."""
    if user is None:
        return Needles(options["search"], [options["user"]])
    return needles_of(Person.of(user), options)


def told(findings: Findings) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in sorted(findings.searched.items()))
    return f"Searched: {counts.replace('_', ' ')}."
