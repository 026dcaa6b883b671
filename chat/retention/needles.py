"""What is looked for where something should be gone, in every form in which it may be written.

Texts are found as they were written, as JSON, JSON within JSON and the blocks of a request escape
them; names as whole words, whatever their capitals and however their accents are put together.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Collection, Iterable
from urllib.parse import quote_plus

_CAPITALS = re.compile("[A-Z]+")
_ESCAPED = re.compile(r"\\u[0-9a-f]{4}")


class Needles:
    """What is looked for. `texts` anywhere; `names` as whole words; `ids` as a person's number."""

    def __init__(
        self,
        texts: Collection[str] = (),
        names: Collection[str] = (),
        user_ids: Collection[int] = (),
    ) -> None:
        self.names = [each for each in names if each]
        self.texts = [each for each in texts if each]
        # Where a number names a person: in JSON, and in the keys of counters.
        self._ids = [
            re.compile(rf'"user": {each}(?!\d)|limit:\w+:{each}:|throttle_\w+_{each}(?!\d)')
            for each in user_ids
        ]
        self.user_ids = list(user_ids)
        self._plain = forms_of(self.texts)
        self._spelt = [form for name in self.names for form in spellings(name)]
        self._words = [whole_word(form) for form in forms_of(self._spelt)]

    @property
    def candidates(self) -> list[str]:
        """What a value that may be a hit holds, whatever the capitals of ASCII letters."""
        numbers = [f'"user": {each}' for each in self.user_ids]
        texts = [*self.texts, *self._spelt]
        in_addresses = [quote_plus(each, errors="replace") for each in texts]
        found = dict.fromkeys([*forms_of(texts), *in_addresses, *numbers])
        return list({_CAPITALS.sub(_lower, each): each for each in found}.values())

    def are_in(self, value: str, *, with_names: bool = True) -> bool:
        if any(text in value for text in self._plain):
            return True
        by = [*self._ids, *self._words] if with_names else self._ids
        return any(each.search(value) for each in by)

    def are_in_bytes(self, data: bytes) -> bool:
        """In a file or a cached value, whose words stand in UTF-8."""
        return self.are_in(data.decode("utf-8", "replace"))

    @property
    def longest(self) -> int:
        forms = [*self._plain, *self.candidates]
        return max((len(each.encode()) for each in forms), default=0)


def forms_of(texts: Iterable[str]) -> list[str]:
    """Each text as it is, as blocks escape it, and both as JSON and as JSON within JSON (the
    arguments of a tool), with letters and digits of either case in what is escaped."""
    found: dict[str, None] = {}
    for text in texts:
        forms = [text, html.escape(text, quote=False), html.escape(text)]
        for _ in range(2):
            forms += [_as_json(each, is_ascii) for each in forms for is_ascii in (True, False)]
        found.update(dict.fromkeys(forms))
    capital = (_ESCAPED.sub(lambda each: rf"\u{each.group()[2:].upper()}", form) for form in found)
    return list(dict.fromkeys([*found, *capital]))


def _lower(found: re.Match[str]) -> str:
    return found.group().lower()


def _as_json(text: str, is_ascii: bool) -> str:
    return json.dumps(text, ensure_ascii=is_ascii)[1:-1]


def spellings(name: str) -> list[str]:
    """A name in the capitals and compositions in which people write it; databases and JSON know
    such variants of ASCII letters alone."""
    written = (name, name.lower(), name.upper(), name.title(), name.capitalize())
    forms = (unicodedata.normalize(form, each) for each in written for form in ("NFC", "NFD"))
    return list(dict.fromkeys([name, *forms]))


def whole_word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
