"""ChatMemory: add, read, replace and clear the window of one memory id over a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from memory.messages import Message, require_messages
from memory.stores.base import (
    RevisionConflict,
    Snapshot,
    SnapshotStore,
    attempts,
    require_memory_id,
)
from memory.tokens import counter_for
from memory.window import CountTokens, WindowPolicy, trim

PolicySource = WindowPolicy | Callable[[str], WindowPolicy]


class ChatMemory:
    """The window of one memory id. Nothing is cached: every call reads the store.

    `policy` is a WindowPolicy, or a function of the memory id that is asked at every call. The
    limits count everything that is added, the current input too. `messages()` trims a copy and
    stores nothing; a smaller limit cuts what is stored at the next `add` or `set`.

    Any number of threads and processes may write to one id: what each `add` brings stays together
    and nothing is lost. A writer that others get ahead of too often raises RevisionConflict, and
    has then stored nothing.
    """

    def __init__(
        self,
        memory_id: str,
        policy: PolicySource,
        store: SnapshotStore,
        count_tokens: CountTokens | None = None,
    ) -> None:
        if not isinstance(policy, WindowPolicy) and not callable(policy):
            raise TypeError(f"policy must be a WindowPolicy or a function, not {policy!r}")
        self.memory_id = require_memory_id(memory_id)
        self._policy = policy
        self._store = store
        self._count_tokens = count_tokens or counter_for("o200k_base")

    def add(self, *messages: Message) -> None:
        """Add messages at the end and let the oldest go where the window overflows.

        With whole exchanges all messages are added in one write; message-exact adds them one by
        one, each with its own read and write, as its peers do.
        """
        added = require_messages(messages)
        policy = self._current_policy()
        batches = [added] if policy.align_to_turns else [[message] for message in added]
        for batch in batches:
            if batch:
                self._add(batch, policy)

    def messages(self) -> list[Message]:
        """A new list of the stored messages that fit the policy as it is now."""
        policy = self._current_policy()
        stored = self._load()
        return self._trim(stored.messages if stored else (), policy)

    def set(self, messages: Iterable[Message]) -> None:
        """Replace everything, with one write and no read; an empty list replaces too."""
        found = require_messages(messages)
        policy = self._current_policy()
        self._store.replace(self.memory_id, self._trim(found, policy))

    def clear(self) -> None:
        """Forget everything; clearing what is empty is fine."""
        self._store.delete(self.memory_id)

    async def aadd(self, *messages: Message) -> None:
        """`add` in a thread. Cancelling the wait does not undo a write that has begun."""
        await self._in_thread(self.add, *messages)

    async def amessages(self) -> list[Message]:
        """`messages` in a thread."""
        found: list[Message] = await self._in_thread(self.messages)
        return found

    async def aset(self, messages: Iterable[Message]) -> None:
        """`set` in a thread; `messages` is read before the first wait."""
        await self._in_thread(self.set, require_messages(messages))

    async def aclear(self) -> None:
        """`clear` in a thread."""
        await self._in_thread(self.clear)

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        run = getattr(self._store, "in_thread", asyncio.to_thread)
        return await run(call, *arguments)

    def _add(self, batch: list[Message], policy: WindowPolicy) -> None:
        conflict: RevisionConflict | None = None
        for _ in attempts():
            stored = self._load()
            before = list(stored.messages) if stored else []
            after = before
            for message in batch:
                after = _place(after, message, policy.system_first)
            if after is before:
                return
            revision = stored.revision if stored else 0
            try:
                self._store.replace(
                    self.memory_id, self._trim(after, policy), expected_revision=revision
                )
            except RevisionConflict as error:
                conflict = error
            else:
                return
        if conflict is not None:
            raise conflict

    def _trim(self, messages: Iterable[Message], policy: WindowPolicy) -> list[Message]:
        return list(trim(messages, policy, self._count_tokens).kept)

    def _load(self) -> Snapshot | None:
        stored = self._store.load(self.memory_id)
        if stored is not None and not isinstance(stored, Snapshot):
            raise TypeError(f"the store answered {stored!r} for {self.memory_id!r}, not a Snapshot")
        return stored

    def _current_policy(self) -> WindowPolicy:
        if isinstance(self._policy, WindowPolicy):
            return self._policy
        policy = self._policy(self.memory_id)
        if not isinstance(policy, WindowPolicy):
            raise TypeError(f"the policy function answered {policy!r}, not a WindowPolicy")
        return policy


def _place(messages: list[Message], message: Message, system_first: bool) -> list[Message]:
    """`messages` with `message` added: the same list when it changes nothing.

    There is one system message: the same text again changes nothing, another one replaces it.
    """
    if message.role != "system":
        return [*messages, message]
    position = next((i for i, each in enumerate(messages) if each.role == "system"), None)
    if position is not None:
        if messages[position].content == message.content:
            return messages
        messages = messages[:position] + messages[position + 1 :]
    return [message, *messages] if system_first else [*messages, message]
