"""What a person had deleted, as keyed hashes: enough to know it again, and not to read it.

It is known by its key, its text, each telling word of its text, the words that were quoted and the
message that it came from. Words count because a model may call the same thing by another key, and
say it in other words, when it finds it in another old message.

A hash is bound to its tenant and user, so equal texts of two people cannot be told to be equal.
Another CHAT_PROOF_KEY knows nothing of what was forgotten under the old one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import unicodedata
import uuid
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from memory.models import ForgottenPreference, UserPreference
from memory.text import folded_key
from memory.words import question_tokens

Kind = ForgottenPreference.Kind

MOST_WORDS = 60
"""So many words of a text are kept at most, the longest ones."""

_WORDS = re.compile(r"\w+")


def note(rows: Iterable[UserPreference]) -> None:
    """Keep the hashes of preferences that are being deleted; inside that transaction."""
    for row in rows:
        hashes = _hashes(
            row.tenant_id,
            row.user_id,
            key=row.key,
            text=row.text,
            quote=row.quote,
            source_session=row.source_session_id,
            source_seq=row.source_seq,
        )
        _keep(row.tenant_id, row.user_id, hashes)


def note_wording(row: UserPreference, text: str) -> None:
    """Keep the hashes of what is said no more when `row` gets another text: the old one, and its
    telling words that the new one does not have. Inside the transaction that changes it."""
    if _words(row.text) == _words(text):
        return
    gone = [word for word in _telling(row.text) if word not in _telling(text)]
    values: list[object] = [_words(row.text), *(["word", word] for word in gone)]
    owner = row.tenant_id, row.user_id
    _keep(*owner, [(Kind.TEXT, _digest([Kind.TEXT, *owner, value])) for value in values])


def _keep(tenant_id: int, user_id: int, hashes: Collection[tuple[str, str]]) -> None:
    now = timezone.now()
    owner = {"tenant_id": tenant_id, "user_id": user_id}
    known = ForgottenPreference.objects.filter(digest__in=[digest for _, digest in hashes], **owner)
    known.update(forgotten_at=now)
    ForgottenPreference.objects.bulk_create(
        [
            ForgottenPreference(kind=kind, digest=digest, forgotten_at=now, **owner)
            for kind, digest in hashes
        ],
        ignore_conflicts=True,
    )


def is_forgotten(
    tenant_id: int,
    user_id: int,
    *,
    key: str,
    text: str,
    quote: str,
    source_session: uuid.UUID | None,
    source_seq: int | None,
    said_at: datetime | None,
) -> bool:
    """Whether a candidate is something that its person had deleted.

    It is if it comes from the very message, or if its key, quote or any telling word of its text
    was deleted after it was said. What is said anew after the deletion is not. None: nobody knows
    when it was said (it was imported), so it may have been before.
    """
    hashes = _hashes(
        tenant_id,
        user_id,
        key=key,
        text=text,
        quote=quote,
        source_session=source_session,
        source_seq=source_seq,
    )
    known = ForgottenPreference.objects.filter(
        tenant_id=tenant_id, user_id=user_id, digest__in=[digest for _, digest in hashes]
    )
    return any(
        kind == Kind.SOURCE or said_at is None or said_at <= forgotten_at
        for kind, forgotten_at in known.values_list("kind", "forgotten_at")
    )


def _hashes(
    tenant_id: int,
    user_id: int,
    *,
    key: str,
    text: str,
    quote: str,
    source_session: uuid.UUID | None,
    source_seq: int | None,
) -> list[tuple[str, str]]:
    """Kind and digest of everything by which a preference is known again."""

    def values() -> Iterator[tuple[str, object]]:
        yield Kind.KEY, folded_key(key)
        yield Kind.TEXT, _words(text)
        for word in _telling(text):
            yield Kind.TEXT, ["word", word]
        if quote:
            yield Kind.QUOTE, _words(quote)
        if source_session is not None and source_seq is not None:
            yield Kind.SOURCE, [str(source_session), source_seq]

    return [(kind, _digest([kind, tenant_id, user_id, value])) for kind, value in values()]


def _words(text: str) -> str:
    """A text as texts are compared here: its words, without regard to case and punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_WORDS.findall(folded)) or folded_key(text)


def _telling(text: str) -> list[str]:
    """The words of a text that say what it is about; pairs of characters in unspaced scripts."""
    return sorted(question_tokens(text), key=len, reverse=True)[:MOST_WORDS]


def _digest(value: list[object]) -> str:
    plain = json.dumps(value).encode()
    return hmac.new(settings.CHAT_PROOF_KEY.encode(), plain, hashlib.sha256).hexdigest()
