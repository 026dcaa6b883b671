"""The cache store beside the contract: keys, expiry, failing calls, slow and lost writers."""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any

import pytest
from django.core.cache.backends.dummy import DummyCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.exceptions import ImproperlyConfigured

from memory.chat_memory import ChatMemory
from memory.messages import Message
from memory.stores import CacheStore, RevisionConflict
from memory.stores.cache import NoAnswer, NotStored
from memory.window import WindowPolicy

U = Message.user
A = Message.assistant
ROOMY = WindowPolicy(100)


class Recording(LocMemCache):
    """A cache of this process that notes its calls, and does before or instead of one what a test
    puts there."""

    def __init__(self) -> None:
        super().__init__(f"test-{uuid.uuid4()}", {"OPTIONS": {"MAX_ENTRIES": 10_000}})
        self.calls: list[str] = []
        self.before: dict[int, Any] = {}

    def _note(self, call: str, key: Any) -> None:
        self.calls.append(f"{call} {key}")
        if act := self.before.get(len(self.calls)):
            act()

    def get(self, key: Any, *arguments: Any, **options: Any) -> Any:
        self._note("get", key)
        return super().get(key, *arguments, **options)

    def set(self, key: Any, *arguments: Any, **options: Any) -> Any:
        self._note("set", key)
        return super().set(key, *arguments, **options)

    def add(self, key: Any, *arguments: Any, **options: Any) -> Any:
        self._note("add", key)
        return super().add(key, *arguments, **options)

    def contents(self) -> dict[str, Any]:
        """Every key that is there, without the cache's own prefix, with its value."""
        names = [key.split(":", 2)[2] for key in vars(self)["_cache"]]
        found = {name: LocMemCache.get(self, name) for name in names if "there" not in name}
        return {name: value for name, value in found.items() if value is not None}

    def fail_from(self, call: int) -> None:
        def fail() -> None:
            raise ConnectionError("the cache went away")

        self.before = dict.fromkeys(range(call, call + 1000), fail)
        self.calls.clear()

    def heal(self) -> None:
        self.before = {}


@pytest.fixture
def cache() -> Recording:
    return Recording()


def texts(store: CacheStore, memory_id: str = "m") -> list[str | None]:
    return [each.content for each in ChatMemory(memory_id, ROOMY, store).messages()]


# --- Keys and expiry


def test_the_text_is_in_the_newest_key_alone(cache: Recording) -> None:
    store = CacheStore(cache)
    for n in range(3):
        store.replace("m", [U(f"text {n}")])
    keys = cache.contents()
    newest = keys["chat:memory:m"]
    assert set(keys) == {"chat:memory:m", *(f"chat:memory:m:{newest - n}" for n in range(3))}
    assert [key for key, value in keys.items() if "text" in str(value)] == [
        f"chat:memory:m:{newest}"
    ]
    store.delete("m")
    assert "text" not in str(cache.contents())


def test_keys_are_such_as_memcached_takes(cache: Recording) -> None:
    store = CacheStore(cache)
    ids = [
        "a:1",
        "a",
        "a%3A1",
        "#",
        "会话" * 90,
        "会话" * 89,
        "x" * 191,
        "a b",
        "\x7f\x01",
        "\ud83d",
    ]
    for memory_id in ids:
        store.replace(memory_id, [U(memory_id)])
    for memory_id in ids:
        assert texts(store, memory_id) == [memory_id]
    for key in cache.contents():
        assert len(key) < 200
        assert all(33 <= ord(character) < 127 for character in key)


class Clock:
    """Stands in for the time module of Django's caches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        for module in ("base", "locmem"):
            monkeypatch.setattr(f"django.core.cache.backends.{module}.time", self)

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_window_expires_after_its_time_to_live(cache: Recording, clock: Clock) -> None:
    store = CacheStore(cache, ttl=60)
    store.replace("m", [U("a")])
    clock.now += 59
    assert texts(store) == ["a"]
    clock.now += 2
    assert store.load("m") is None
    stored = store.replace("m", [U("b")], expected_revision=0)
    assert store.load("m") == stored


def test_a_write_gives_a_window_its_whole_time_again(cache: Recording, clock: Clock) -> None:
    memory = ChatMemory("m", ROOMY, CacheStore(cache, ttl=60))
    memory.add(U("a"))
    clock.now += 40
    memory.add(U("b"))
    clock.now += 40
    assert memory.messages() == [U("a"), U("b")]


def test_the_keys_of_replaced_windows_leave_after_an_hour(cache: Recording, clock: Clock) -> None:
    store = CacheStore(cache)
    for n in range(5):
        store.replace("m", [U(str(n))])
    clock.now += 3_601
    assert texts(store) == ["4"]
    assert len(cache.contents()) == 2
    store.delete("m")
    clock.now += 3_601
    assert list(cache.contents()) == ["chat:memory:m"]
    store.replace("m", [U("again")], expected_revision=0)
    assert texts(store) == ["again"]


@pytest.mark.parametrize("ttl", [0, -1, None, True, 1.5])
def test_a_time_to_live_that_is_none_is_refused(ttl: Any) -> None:
    with pytest.raises(ValueError, match="ttl is"):
        CacheStore(ttl=ttl)


def test_a_cache_that_keeps_nothing_is_refused() -> None:
    store = CacheStore(DummyCache("", {}))
    for act in (store.load, store.delete, lambda each: store.replace(each, [U("x")])):
        with pytest.raises(ImproperlyConfigured, match="DummyCache"):
            act("m")


def test_the_cache_is_found_by_its_alias() -> None:
    memory_id = str(uuid.uuid4())
    CacheStore("default").replace(memory_id, [U("a")])
    assert texts(CacheStore(), memory_id) == ["a"]
    with pytest.raises(Exception, match="nowhere"):
        CacheStore("nowhere").load(memory_id)


# --- Failures


def test_wherever_the_cache_fails_nothing_is_half_written(
    cache: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = ""
    for call in range(1, 15):
        memory = ChatMemory(f"m{call}", ROOMY, CacheStore(cache))
        memory.add(U("q"), A("a"))
        cache.fail_from(call)
        with caplog.at_level(logging.WARNING):
            try:
                memory.add(U("r"), A("b"))
            except ConnectionError:
                outcomes += "-"
                expected = [U("q"), A("a")]
            else:
                outcomes += "+"
                expected = [U("q"), A("a"), U("r"), A("b")]
        cache.heal()
        assert memory.messages() == expected
    # Seven calls up to the write itself, three that tidy up after it.
    assert outcomes == "-------+++++++"
    assert caplog.text.count("is stored; tidying up failed") == 3


def test_wherever_the_first_write_fails_there_is_nothing_or_all_of_it(cache: Recording) -> None:
    for call in range(1, 10):
        memory = ChatMemory(f"m{call}", ROOMY, CacheStore(cache))
        cache.fail_from(call)
        try:
            memory.add(U("q"), A("a"))
        except ConnectionError:
            expected = []
        else:
            expected = [U("q"), A("a")]
        cache.heal()
        assert memory.messages() == expected
        memory.add(U("r"))
        assert memory.messages() == [*expected, U("r")]


def test_a_cache_that_is_down_is_an_error_and_never_an_empty_memory(cache: Recording) -> None:
    memory = ChatMemory("m", ROOMY, CacheStore(cache))
    memory.add(U("q"))
    cache.fail_from(1)
    for act in (memory.messages, memory.clear, lambda: memory.set([]), lambda: memory.add(U("r"))):
        with pytest.raises(ConnectionError):
            act()
    cache.heal()
    assert memory.messages() == [U("q")]


def test_a_cache_that_says_nothing_while_it_is_away_is_an_error(cache: Recording) -> None:
    """As pymemcache, for a second after its server went away."""

    class Silent(Recording):
        is_away = False

        def get(self, *arguments: Any, **options: Any) -> Any:
            return None if self.is_away else super().get(*arguments, **options)

        def add(self, *arguments: Any, **options: Any) -> Any:
            return not self.is_away and super().add(*arguments, **options)

    silent = Silent()
    memory = ChatMemory("m", ROOMY, CacheStore(silent))
    memory.add(U("q"))
    silent.is_away = True
    for act in (memory.messages, memory.clear, lambda: memory.set([]), lambda: memory.add(U("r"))):
        with pytest.raises(NoAnswer, match="does not answer for memory 'm'"):
            act()
    silent.is_away = False
    assert memory.messages() == [U("q")]


def test_a_value_that_the_cache_does_not_take_is_an_error(cache: Recording) -> None:
    """As Memcached with what is larger than a megabyte."""

    class Small(Recording):
        def add(self, key: Any, value: Any, *arguments: Any, **options: Any) -> Any:
            if len(str(value)) > 1_000:
                return False
            return super().add(key, value, *arguments, **options)

    memory = ChatMemory("m", ROOMY, CacheStore(Small()))
    memory.add(U("q"))
    with pytest.raises(NotStored, match=r"did not store \d{4} bytes for memory 'm'"):
        memory.add(U("x" * 2_000))
    assert memory.messages() == [U("q")]


def test_a_key_that_holds_something_else_asks_for_a_rebuild(cache: Recording) -> None:
    from memory.stores import RebuildNeeded

    for spoilt in ("text", {"a": 1}, 1.5):
        cache.set("chat:memory:m", spoilt)
        with pytest.raises(RebuildNeeded):
            texts(CacheStore(cache))
        CacheStore(cache).replace("m", [U("rebuilt")])
        assert texts(CacheStore(cache)) == ["rebuilt"]
    cache.set("chat:memory:m", "text")
    CacheStore(cache).delete("m")
    assert texts(CacheStore(cache)) == []


# --- Other writers, at a chosen moment


def test_a_writer_that_was_overtaken_before_its_write_is_told(cache: Recording) -> None:
    store, other = CacheStore(cache), CacheStore(cache)
    first = store.replace("m", [U("a")])
    cache.calls.clear()

    def overtake() -> None:
        cache.heal()
        for n in range(3):
            other.replace("m", [U(f"other {n}")])

    position = writes_at(cache, lambda: store.replace("probe", [U("x")], expected_revision=0))
    cache.before = {position: overtake}
    with pytest.raises(RevisionConflict):
        store.replace("m", [U("late")], expected_revision=first.revision)
    assert texts(store) == ["other 2"]


def writes_at(cache: Recording, act: Any) -> int:
    """The number of the call that writes the window, in a replacement of a known one."""
    act()
    cache.calls.clear()
    found = CacheStore(cache).load("probe")
    assert found is not None
    CacheStore(cache).replace("probe", [U("y")], expected_revision=found.revision)
    calls = [n for n, call in enumerate(cache.calls, start=1) if call.startswith("add")]
    reads = 3  # of the load above: the newest revision, the window, the one after it
    cache.calls.clear()
    return calls[0] - reads


def test_a_late_writer_does_not_bring_back_what_was_cleared(cache: Recording) -> None:
    store = CacheStore(cache)
    first = store.replace("m", [U("secret")])
    position = writes_at(cache, lambda: store.replace("probe", [U("x")], expected_revision=0))

    def clear() -> None:
        cache.heal()
        CacheStore(cache).delete("m")

    cache.before = {position: clear}
    with pytest.raises(RevisionConflict):
        store.replace("m", [U("secret"), A("late")], expected_revision=first.revision)
    assert store.load("m") is None


def test_of_two_first_writers_one_begins(cache: Recording) -> None:
    """The other one comes in between looking and choosing the first revision."""

    def begin() -> None:
        cache.heal()
        CacheStore(cache).replace("m", [U("first")])

    cache.before = {3: begin}
    with pytest.raises(RevisionConflict, match="expected 0"):
        CacheStore(cache).replace("m", [U("second")], expected_revision=0)
    assert texts(CacheStore(cache)) == ["first"]


def test_a_write_that_a_client_repeats_counts_once(cache: Recording) -> None:
    """The answer to `add` was lost, the client sends it again and hears that the key is taken."""

    class Repeating(Recording):
        def add(self, *arguments: Any, **options: Any) -> Any:
            super().add(*arguments, **options)
            return super().add(*arguments, **options)

    store = CacheStore(Repeating())
    store._cache.set("chat:memory:m", 7)
    ChatMemory("m", ROOMY, store).add(U("q"))
    assert texts(store) == ["q"]


def test_a_writer_that_dies_after_its_write_has_written(cache: Recording) -> None:
    store = CacheStore(cache)
    store.replace("m", [U("a")])
    noted = cache.get("chat:memory:m")
    for text in ("b", "c"):  # neither of them notes where its window is
        revision = store.replace("m", [U(text)]).revision
        cache.set("chat:memory:m", noted)
    assert texts(store) == ["c"]
    stored = store.replace("m", [U("d")], expected_revision=revision)
    assert stored.revision == revision + 1
    assert cache.get("chat:memory:m") == stored.revision


@pytest.mark.parametrize("call", [2, 3, 4])
def test_a_window_that_is_replaced_while_it_is_read_is_looked_for_again(call: int) -> None:
    """Keys on several servers may be read in any order: the next revision first, as here."""

    class Reversed(Recording):
        def get_many(self, keys: Any, *arguments: Any, **options: Any) -> Any:
            return super().get_many(list(keys)[::-1], *arguments, **options)

    cache = Reversed()
    store = CacheStore(cache)
    store.replace("m", [U("a")])
    cache.calls.clear()

    def replace() -> None:
        cache.heal()
        CacheStore(cache).replace("m", [U("b")])

    cache.before = {call: replace}
    assert texts(store) in (["b"], ["a"] if call == 4 else ["b"])


def test_a_window_that_the_cache_lost_is_not_there_and_can_be_written(cache: Recording) -> None:
    store = CacheStore(cache)
    first = store.replace("m", [U("a")])
    cache.delete(f"chat:memory:m:{first.revision}")
    assert store.load("m") is None
    with pytest.raises(RevisionConflict):
        store.replace("m", [U("b")], expected_revision=first.revision)
    again = store.replace("m", [U("b")], expected_revision=0)
    assert again.revision > first.revision
    assert texts(store) == ["b"]


def test_what_is_stored_is_plain_json(cache: Recording) -> None:
    stored = CacheStore(cache).replace("m", [U("规则\x00\ud83d")])
    value = json.loads(cache.get(f"chat:memory:m:{stored.revision}"))
    token = value.pop("token")
    assert len(token) == 16
    assert value == {"version": 1, "messages": [{"role": "user", "content": "规则\x00\ud83d"}]}


def test_a_writer_that_took_too_long_undoes_its_write(
    cache: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CacheStore(cache)
    store.replace("m", [U("a")])
    clock = iter([0.0, 4_000.0])
    monkeypatch.setattr("memory.stores.cache.time.monotonic", lambda: next(clock))
    with pytest.raises(TimeoutError, match="write it again"):
        store.replace("m", [U("late")])
    assert texts(store) == ["a"]
