"""Documents of assistants: what is taken, how it is split, what is found in it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from chat import documents
from chat.models import AssistantDocument, AuditEvent
from memory.references import Question
from tests import builders
from tests.chat.admin_site import page_url, signed_in, text_of

pytestmark = pytest.mark.django_db

HANDBOOK = """\
Welcome.

# Refunds

Refunds are paid within 14 days.

## Abroad

退款到国外需要三十天。

```sh
# not a heading
```

# Phone: 4173
"""
ADD = "admin:chat_assistantdocument_add"


def ask(text: str, assistant: Any) -> list[tuple[str, str]] | None:
    found = documents.passages(Question(text, assistant.slug, 1, 1))
    return None if found is None else [(each.source, each.text) for each in found]


# --- Coming in


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.pdf", b"text", "its name must end in .txt, .md, .markdown"),
        ("a.md", b"\xff\xfe\x00", "is not UTF-8: byte 0 is 0xff"),
        ("a.md", "caf\u00e9".encode("latin-1"), "byte 3 is 0xe9"),
        ("a.txt", b"a\0b", "holds NUL characters"),
        ("a.txt", b" \n ", "holds no text"),
        ("a.txt", b"x" * 101, "101 bytes; at most 100"),
        ("x" * 300 + ".txt", b"text", "at most 200"),
    ],
)
def test_what_is_no_text_file_of_a_fair_size_is_refused(
    settings: Any, name: str, data: bytes, why: str
) -> None:
    settings.CHAT_DOCUMENT_MAX_BYTES = 100
    with pytest.raises(documents.BadDocument, match=why):
        documents.add(builders.assistant(), name, data)
    assert not AssistantDocument.objects.exists()


def test_all_documents_of_an_assistant_together_are_bounded(settings: Any) -> None:
    settings.CHAT_DOCUMENTS_MAX_BYTES = 10
    assistant = builders.assistant()
    documents.add(assistant, "a.txt", b"123456")
    with pytest.raises(documents.BadDocument, match="the assistant's other documents 6"):
        documents.add(assistant, "b.txt", b"12345")
    documents.add(builders.assistant(), "b.txt", b"12345")


def test_a_document_is_kept_under_the_last_part_of_its_name_with_its_digest() -> None:
    made = documents.add(builders.assistant(), "C:\\docs\\../a b\u0000.MD", "\ufeff退 😄".encode())
    assert (made.name, made.text, made.size) == ("a b.MD", "退 😄", 8)
    with pytest.raises(documents.BadDocument, match="already has a document"):
        documents.add(made.assistant, "a b.MD", b"other")


# --- Pieces


def test_pieces_stand_below_their_headings() -> None:
    assert [(each.headings, each.text) for each in documents.split(HANDBOOK)] == [
        ((), "Welcome."),
        (("Refunds",), "Refunds are paid within 14 days."),
        (("Refunds", "Abroad"), "退款到国外需要三十天。\n\n```sh\n# not a heading\n```"),
        (("Phone: 4173",), "Phone: 4173"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "word " * 5_000,
        "x" * 100_000,
        "句子。" * 3_000,
        "a\n" * 4_000,
        "p\n\n" * 4_000,
        "😄" * 9_000,
    ],
)
def test_pieces_are_bounded_and_nothing_is_lost(text: str) -> None:
    pieces = [piece.text for piece in documents.split(text)]
    assert max(map(len, pieces)) <= documents.PIECE_LENGTH
    assert "".join("".join(pieces).split()) == "".join(text.split())


# --- Searching


def test_passages_name_the_document_and_the_headings() -> None:
    assistant = builders.assistant()
    assert ask("refunds", assistant) is None
    documents.add(assistant, "handbook.md", HANDBOOK.encode())
    assert ask("When are refunds paid?", assistant)[0] == (  # type: ignore[index]
        "handbook.md › Refunds",
        "Refunds are paid within 14 days.",
    )
    assert ask("国外", assistant)[0][0] == "handbook.md › Refunds › Abroad"  # type: ignore[index]
    assert ask("unicorns", assistant) == []


def test_one_assistant_is_never_given_what_is_in_anothers_documents() -> None:
    documents.add(builders.assistant(), "handbook.md", HANDBOOK.encode())
    assert ask("refunds", builders.assistant()) is None


def test_a_document_that_came_or_went_is_seen_at_once() -> None:
    assistant = builders.assistant()
    first = documents.add(assistant, "a.txt", b"The zebra sleeps.")
    assert ask("zebra", assistant) == [("a.txt", "The zebra sleeps.")]
    documents.add(assistant, "b.txt", b"The lion sleeps.")
    assert ask("lion", assistant) == [("b.txt", "The lion sleeps.")]
    first.delete()
    assert ask("zebra", assistant) == []


# --- In the admin


def upload(client: Any, assistant: Any, name: str = "handbook.md", data: bytes = b"Text.") -> Any:
    file = SimpleUploadedFile(name, data)
    return client.post(reverse(ADD), {"assistant": assistant.pk, "file": file})


def test_staff_upload_read_and_delete_documents() -> None:
    client, assistant = signed_in(builders.superuser()), builders.assistant()
    assert "is not UTF-8" in text_of(upload(client, assistant, data=b"\xff"))
    assert "must end in" in text_of(upload(client, assistant, "a.exe"))
    assert upload(client, assistant, data=HANDBOOK.encode()).status_code == 302
    document = AssistantDocument.objects.get()
    page = text_of(client.get(page_url(document)))
    assert "4 pieces" in page
    assert "Refunds are paid within 14 days." in page
    assert "1 document" in text_of(client.get(page_url(assistant)))
    gone = client.post(page_url(document).replace("/change/", "/delete/"), {"post": "yes"})
    assert gone.status_code == 302
    assert not AssistantDocument.objects.exists()
    actions = AuditEvent.objects.filter(object_type="document").order_by("pk")
    assert list(actions.values_list("action", flat=True)) == ["document.add", "document.delete"]


def test_staff_of_a_tenant_attach_documents_to_its_own_assistants_alone() -> None:
    acme, zeta = builders.tenant("acme"), builders.tenant("zeta")
    permissions = [f"chat.{verb}_assistantdocument" for verb in ("add", "delete", "view")]
    permissions += ["chat.view_assistant", "chat.change_assistant"]
    client = signed_in(builders.staff(tenants=[acme], permissions=permissions))
    mine = builders.assistant(tenant=acme)
    foreign, shared = builders.assistant(tenant=zeta), builders.assistant()
    for assistant in (foreign, shared):
        assert "Select a valid choice" in text_of(upload(client, assistant))
    assert upload(client, mine).status_code == 302
    theirs = documents.add(foreign, "secret.md", b"secret")
    everyones = documents.add(shared, "open.md", b"open")
    assert client.get(page_url(theirs)).status_code == 302
    assert "open.md" in text_of(client.get(page_url(everyones)))
    delete = page_url(everyones).replace("/change/", "/delete/")
    assert client.post(delete, {"post": "yes"}).status_code == 403
