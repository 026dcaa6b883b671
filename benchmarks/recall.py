"""Is a message found by a question about it, and what does a search cost among a million messages?

Recall@10: the share of the messages that answer a question which are among the first ten found. On
`benchmarks/dialogues` (440 messages and 140 questions, half of it Chinese, all held by one person):
"own text": BM25 over each message by itself; "shipped": what `chat.search` finds, a message with
its neighbours and its date; "with vectors": the same with the optional second leg, where
CHAT_SEARCH_EMBEDDINGS names one.

Cost: milliseconds of `find` in a table of MESSAGES messages (100,000; MESSAGES=1000000 for the
million) that 1,000 people hold, against a floor: reading the newest 10 messages of the same person.

By meaning: with VECTORS=50000 also what the comparison of vectors costs where ten people hold so
many messages, one by one and by pgvector, and the share of the nearest 30 that both find. That is
on a PostgreSQL whose user may create the extension `vector`; elsewhere one by one alone.

    recall.py [--locomo FILE]

With --locomo it reads that file (the JSON of the LoCoMo data set, which is not part of this project
for its licence) in the place of the dialogues, each of its conversations as a person's own.
`DATABASE_URL` names the database (it is filled and emptied again, so one that holds people or
conversations is refused); a SQLite file otherwise.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
scratch = tempfile.TemporaryDirectory(prefix="chat-bench-")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatproject.settings")
os.environ.setdefault("READ_DOT_ENV", "false")
os.environ.setdefault("SECRET_KEY", "benchmarks-only-" + "0123456789" * 4)
os.environ.setdefault("DATABASE_URL", f"sqlite:///{scratch.name}/bench.sqlite3")

import django  # noqa: E402

django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from benchmarks.conversations import (  # noqa: E402
    Conversation,
    dialogues,
    locomo,
)
from benchmarks.filling import Scattered, Vocabulary, execute, fill  # noqa: E402
from chat.models import ChatMessage, ChatSession, SearchEntry  # noqa: E402
from chat.search import embeddings, messages, pgvector, rebuilding  # noqa: E402
from chat.search.engines import Engine, engine  # noqa: E402
from chat.search.pieces import WordIndex  # noqa: E402
from chat.search.scopes import Scope  # noqa: E402
from tests import builders  # noqa: E402

LIMIT = 10
MESSAGES = int(os.environ.get("MESSAGES", "100000"))
PEOPLE = 1_000
ROUNDS = 40
VECTORS = int(os.environ.get("VECTORS", "0"))
HOLDERS = 10  # of vectors
Find = Callable[[str], Iterable[str]]


# --- Recall ---------------------------------------------------------------------------------------


def own_text(conversation: Conversation) -> Find:
    """BM25 over each message by itself."""
    ids = [each.id for each in conversation.messages]
    index = WordIndex([each.text for each in conversation.messages])
    return lambda question: [ids[hit.piece] for hit in index.search(question, LIMIT)]


def shipped(conversation: Conversation) -> Find:
    """What a person who held this conversation finds."""
    person = builders.user()
    ids = {}
    for said in conversation.sessions:
        chat_session = builders.chat_session(person)
        for each in said:
            role = each.role if each.role in ("user", "assistant") else "user"
            row = builders.message(chat_session, role, each.text)
            ids[row.pk] = each.id
            ChatMessage.objects.filter(pk=row.pk).update(created_at=each.at)
        rebuilding.rebuild(chat_session.pk)
    tenant = chat_session.tenant_id

    def find(question: str) -> list[str]:
        found = messages.find(tenant_id=tenant, user_id=person.pk, question=question, limit=LIMIT)
        return [ids[each.message_id] for each in found]

    return find


def recalls(conversation: Conversation, find: Find) -> list[tuple[str, float]]:
    """Of each question: its kind, and the share of its evidence that is found."""
    shares = []
    for question in conversation.questions:
        found = set(islice(find(question.text), LIMIT))
        share = len(found & set(question.evidence)) / len(question.evidence)
        shares.append((question.kind, share))
    return shares


def report(name: str, shares: Sequence[tuple[str, float]]) -> float:
    kinds = sorted({kind for kind, _ in shares})
    by_kind = {kind: statistics.mean(s for k, s in shares if k == kind) for kind in kinds}
    mean = statistics.mean(share for _, share in shares)
    detail = ", ".join(f"{kind} {value:.3f}" for kind, value in by_kind.items())
    print(f"  {name:<14} {mean:.3f}   ({detail}; {len(shares)} questions)")
    return mean


def compare(conversations: Sequence[Conversation]) -> None:
    print(f"recall@{LIMIT}")
    own = report("own text", [s for each in conversations for s in recalls(each, own_text(each))])
    finders = [shipped(each) for each in conversations]
    with_vectors = settings.CHAT_SEARCH_EMBEDDINGS
    settings.CHAT_SEARCH_EMBEDDINGS = ""
    whole = report("shipped", all_recalls(conversations, finders))
    print(f"  difference     {whole - own:+.3f}")
    if with_vectors:
        settings.CHAT_SEARCH_EMBEDDINGS = with_vectors
        report("with vectors", all_recalls(conversations, finders))


def all_recalls(
    conversations: Sequence[Conversation], finders: Sequence[Find]
) -> list[tuple[str, float]]:
    pairs = zip(conversations, finders, strict=True)
    return [share for each, find in pairs for share in recalls(each, find)]


# --- Cost -----------------------------------------------------------------------------------------


def newest(chat_session: ChatSession) -> object:
    """The floor: the newest 10 messages of one person."""
    rows = ChatMessage.objects.filter(
        chat_session__user=chat_session.user_id, chat_session__tenant=chat_session.tenant_id
    )
    return list(rows.order_by("-chat_session__last_active_at", "-seq")[:LIMIT])


def own(chat_session: ChatSession, question: str) -> object:
    return messages.find(
        tenant_id=chat_session.tenant_id, user_id=chat_session.user_id, question=question
    )


def everybodys(chat_session: ChatSession, question: str) -> object:
    return messages.find_for_staff(tenants=None, question=question)


def milliseconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    spent = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        spent.append((time.perf_counter() - start) * 1000)
    return statistics.median(spent)


def measure_cost() -> None:
    vocabulary = Vocabulary()
    start = time.perf_counter()
    held = fill(MESSAGES, PEOPLE, vocabulary)
    seconds = time.perf_counter() - start
    pick = vocabulary.chance.choice
    floor = milliseconds(lambda: newest(pick(held)))
    print(
        f"\n{SearchEntry.objects.count():,} messages of {PEOPLE:,} people, {connection.vendor}"
        f" (filled in {seconds:.0f} s); median of {ROUNDS}"
    )
    print(f"  {'newest 10 messages':<32} {floor:8.2f} ms    1.0")
    for find in (own, everybodys):
        for kind, question in vocabulary.questions().items():
            spent = milliseconds(lambda find=find, make=question: find(pick(held), make()))
            name = f"{'own' if find is own else 'everybody'}: {kind}"
            print(f"  {name:<32} {spent:8.2f} ms {spent / floor:6.1f}")


# --- By meaning -----------------------------------------------------------------------------------


def measure_vectors() -> None:
    settings.CHAT_SEARCH_EMBEDDINGS = "benchmarks.filling.Scattered"
    held = fill(VECTORS, HOLDERS, Vocabulary())
    scopes = [Scope((each.tenant_id,), each.user_id) for each in held]
    floor = milliseconds(lambda: newest(random.choice(held)))
    print(f"\n{VECTORS:,} vectors of {HOLDERS} people, {connection.vendor}; median of {ROUNDS}")
    print(f"  {'newest 10 messages':<32} {floor:8.2f} ms    1.0")
    write_vectors()
    one_by_one = report_vectors("nearest 30: one by one", scopes, floor)
    if not has_pgvector():
        return
    execute("CREATE EXTENSION IF NOT EXISTS vector")
    rebuilding.prepare()
    write_vectors()
    by_database = report_vectors("nearest 30: pgvector", scopes, floor)
    pairs = zip(one_by_one, by_database, strict=True)
    agreement = statistics.mean(len(set(a) & set(b)) / len(a) for a, b in pairs)
    print(f"  agreement {agreement:.4f}; the same order: {one_by_one == by_database}")


def has_pgvector() -> bool:
    return connection.vendor == "postgresql" and pgvector.is_available()


def write_vectors() -> None:
    """A vector for every entry, made of its id."""
    words, made = index_of_words(), Scattered()
    ids = list(SearchEntry.objects.values_list("pk", flat=True))
    for start in range(0, len(ids), 1_000):
        some = ids[start : start + 1_000]
        vectors = map(embeddings.packed, made.embed([str(each) for each in some]))
        words.write_vectors(made.name, dict(zip(some, vectors, strict=True)))
    if connection.vendor == "postgresql":
        execute("VACUUM ANALYZE chat_searchentry")


def report_vectors(name: str, scopes: Sequence[Scope], floor: float) -> list[list[int]]:
    """What is nearest to a question of each person, and how long it takes to find it."""
    words = index_of_words()
    spent = milliseconds(lambda: embeddings.nearest(words, random.choice(scopes), "a question"))
    print(f"  {name:<32} {spent:8.2f} ms {spent / floor:6.1f}")
    return [embeddings.nearest(words, each, f"question {n}") for n, each in enumerate(scopes)]


def index_of_words() -> Engine:
    words = engine()
    assert words is not None, f"{connection.vendor} has no index of words"
    return words


def is_in_use() -> bool:
    """Whether the database holds people or conversations."""
    tables = connection.introspection.table_names()
    models = (get_user_model(), ChatSession)
    return any(each._meta.db_table in tables and each._default_manager.exists() for each in models)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locomo", type=Path, help="A JSON file of the LoCoMo data set.")
    given = parser.parse_args()
    if is_in_use():
        sys.exit("The database is in use already: give an empty one in DATABASE_URL.")
    call_command("migrate", verbosity=0)
    conversations = locomo(given.locomo) if given.locomo else [dialogues()]
    compare(conversations)
    if not given.locomo and MESSAGES:
        measure_cost()
    if VECTORS:
        measure_vectors()
    call_command("flush", interactive=False, verbosity=0)


if __name__ == "__main__":
    main()
