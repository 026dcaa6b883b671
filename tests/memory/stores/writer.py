"""A process that adds to one memory, for tests: `python -m tests.memory.stores.writer`.

Arguments: database or redis, the memory id, a name, how many exchanges to add. It says "ready",
waits for a line, adds, and says how many of its adds were acknowledged and which error ended it.
At the line "read" it then says what is stored, as JSON.
"""

from __future__ import annotations

import json
import os
import sys

import django
from django.core.cache.backends.redis import RedisCache

from memory.chat_memory import ChatMemory
from memory.messages import Message
from memory.stores import CacheStore, SnapshotStore
from memory.window import WindowPolicy

ROOMY = WindowPolicy(max_messages=1_000_000)


def store_named(name: str) -> SnapshotStore:
    if name == "redis":
        return CacheStore(RedisCache(os.environ["REDIS_URL"], {}), prefix=os.environ["PREFIX"])
    django.setup()
    from memory.stores import DatabaseStore

    return DatabaseStore()


def main(kind: str, memory_id: str, name: str, count: int) -> None:
    memory = ChatMemory(memory_id, ROOMY, store_named(kind))
    memory.messages()  # the connection and the tokenizer are there before the race begins
    print("ready", flush=True)
    sys.stdin.readline()
    acknowledged, problem = 0, ""
    try:
        for n in range(count):
            memory.add(Message.user(f"{name}-{n}"), Message.assistant(f"{name}-{n}!"))
            acknowledged += 1
    except Exception as error:  # the test looks at which one
        problem = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    print(acknowledged, problem.replace("\n", " "), flush=True)
    if sys.stdin.readline() == "read\n":
        print(json.dumps([each.content for each in memory.messages()]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
