"""Images that are sent along: what is taken, how they reach a model, and that they leave."""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.utils import timezone

from chat import attachments, llm, records, retention, running
from chat.attachments import BadImage, check
from chat.attachments.checking import LONGEST_SIDE
from chat.attachments.files import clean_name
from chat.models import (
    Assistant,
    Attachment,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    ContextRecord,
    FollowUp,
    PendingRemoval,
)
from chat.retention import removals
from chat.turns import Order, Refused, images
from memory.messages import Message
from memory.models import MemorySnapshot
from memory.tokens import counter_for
from tests import builders
from tests.fakes import FakeEndpoint
from tests.orders import again, run_order, send

pytestmark = pytest.mark.django_db(transaction=True)

MOST = 5 * 1024 * 1024
PNG = builders.png()
HTML = b"<!doctype html><script>alert(1)</script>"
GIF = (
    b"GIF89a\x02\x00\x03\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff"  # 2 x 3, two colours
    b"\x21\xf9\x04\x00\x00\x00\x00\x00"
    b"\x2c\x00\x00\x00\x00\x02\x00\x03\x00\x00\x02\x02\x44\x01\x00\x3b"
)
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xc0\x00\x0b\x08\x00\x05\x00\x07\x01\x01\x11\x00"  # 7 x 5
    b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x12\xff\x00\x34\xff\xd0\x56"
    b"\xff\xd9"
)
VP8X = b"VP8X" + struct.pack("<I", 10) + b"\x00" * 4 + b"\x0b\x00\x00" + b"\x08\x00\x00"  # 12 x 9
VP8L = b"VP8L" + struct.pack("<I", 6) + b"\x2f\x0b\x00\x02\x00\x00"
WEBP = b"RIFF" + struct.pack("<I", 4 + len(VP8X) + len(VP8L)) + b"WEBP" + VP8X + VP8L


def png_header(width: int, height: int) -> bytes:
    """A complete PNG that states a size; its pixels are not there."""
    small = builders.png()
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return small[:12] + header + struct.pack(">I", zlib.crc32(header)) + small[33:]


def refusal(data: bytes, most: int = MOST) -> str:
    with pytest.raises(BadImage) as refused:
        check(data, most)
    return refused.value.code


# --- What is taken --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "content_type", "size"),
    [
        (PNG, "image/png", (8, 6)),
        (GIF, "image/gif", (2, 3)),
        (JPEG, "image/jpeg", (7, 5)),
        (WEBP, "image/webp", (12, 9)),
    ],
)
def test_the_type_and_the_size_are_read_from_the_content(
    data: bytes, content_type: str, size: tuple[int, int]
) -> None:
    image = check(data, MOST)
    assert (image.content_type, (image.width, image.height), image.data) == (
        content_type,
        size,
        data,
    )


@pytest.mark.parametrize("data", [PNG, GIF, JPEG, WEBP])
@pytest.mark.parametrize("behind", [HTML, b"PK\x03\x04 an archive", b"\x00" * 100, PNG])
def test_what_stands_behind_the_end_of_an_image_is_not_kept(data: bytes, behind: bytes) -> None:
    assert check(data + behind, MOST).data == data


@pytest.mark.parametrize("data", [PNG, GIF, JPEG, WEBP])
def test_no_image_that_ends_too_early_is_taken(data: bytes) -> None:
    for length in range(1, len(data)):
        assert refusal(data[:length]) in {"broken_image", "unsupported_type"}, length
    assert refusal(data[: len(data) - 1]) == "broken_image"


def test_no_bytes_are_no_image() -> None:
    assert refusal(b"") == "empty_file"


@pytest.mark.parametrize(
    "data",
    [
        HTML,
        b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        b"\xef\xbb\xbf<?xml version='1.0'?><svg/>",
        b"%PDF-1.7",
        b"BM" + b"\x00" * 60,
        b"II*\x00" + b"\x00" * 60,
        b"\x00\x00\x00\x20ftypavif",
        b"\x00" + PNG,
        HTML + PNG,
        b"\xff" * 1000,
        "图片 😄".encode(),
    ],
)
def test_every_other_type_is_refused(data: bytes) -> None:
    assert refusal(data) == "unsupported_type"


@pytest.mark.parametrize(
    "data",
    [
        b"GIF89a/*" + HTML + b"*/=1;",
        b"\x89PNG\r\n\x1a\n" + HTML,
        b"\xff\xd8\xff" + HTML,
        b"RIFF" + struct.pack("<I", len(HTML) + 4) + b"WEBP" + HTML,
        PNG[:-12] + b"\x00" * 12,  # a chunk that is none in the place of the end
        PNG[:50] + b"\x00" + PNG[51:],  # one byte of the pixels is another
        PNG[:33] + PNG[-12:],  # no pixels at all
        b"\xff\xd8\xff\xd9",
    ],
)
def test_a_page_with_the_first_bytes_of_an_image_is_no_image(data: bytes) -> None:
    assert refusal(data) == "broken_image"


def test_an_image_of_too_many_pixels_is_refused_whatever_its_bytes() -> None:
    assert refusal(png_header(20_000, 20_000)) == "too_many_pixels"
    assert refusal(png_header(LONGEST_SIDE + 1, 1)) == "too_many_pixels"
    assert refusal(png_header(9_000, 9_000)) == "too_many_pixels"
    assert refusal(png_header(0, 5)) == "broken_image"
    assert check(png_header(LONGEST_SIDE, 5_000), MOST).width == LONGEST_SIDE


def test_the_limit_of_bytes_is_exact() -> None:
    assert check(PNG, len(PNG)).data == PNG
    assert refusal(PNG, len(PNG) - 1) == "file_too_large"


def test_a_megabyte_of_rubbish_takes_no_time() -> None:
    assert refusal(b"\xff\xd8\xff\xda\x00\x08" + b"\xff" * 1_000_000) == "broken_image"
    assert refusal(b"GIF89a" + b"\x21" * 1_000_000) == "broken_image"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("cat.png", "cat.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\bob\\猫 😄.png", "猫 😄.png"),
        ("a\r\nSet-Cookie: x\x00.png", "a Set-Cookie: x.png"),
        ("gpj.\u202eexe", "gpj. exe"),
        ("half \ud83d.png", "half \ufffd.png"),
        ("", "image"),
        ("x" * 1_000_000 + ".jpeg", "x" * 145 + ".jpeg"),
    ],
)
def test_a_name_is_one_line_of_visible_text(given: str, kept: str) -> None:
    assert clean_name(given) == kept


def test_the_place_of_a_file_tells_nothing_of_its_name_and_only_the_server_reads_it() -> None:
    made = builders.attachment(builders.chat_session(), "secret.png")
    path = Path(default_storage.path(str(made.file.name)))
    assert "secret" not in str(made.file.name)
    assert path.read_bytes() == PNG
    assert path.stat().st_mode & 0o077 == 0


def test_what_waits_to_be_sent_is_limited() -> None:
    chat_session = builders.chat_session()
    for _ in range(40):
        builders.attachment(chat_session)
    with pytest.raises(BadImage) as refused:
        builders.attachment(chat_session)
    assert refused.value.code == "too_many_attachments"
    names = set(Attachment.objects.values_list("file", flat=True))
    assert len(names) == 40
    assert names == files_on_disk()


def files_on_disk() -> set[str]:
    root = Path(default_storage.path(""))
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def _folder(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path


# --- Sent with a message --------------------------------------------------------------------------


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    endpoint = builders.endpoint(
        base_url=fake_endpoint.base_url, model="fake", supports_vision=True
    )
    return builders.chat_session(assistant=builders.assistant(endpoint=endpoint))


upload = sync_to_async(builders.attachment)
rebuild = sync_to_async(records.rebuild)


def with_images(chat_session: ChatSession, text: str, *uploads: Attachment) -> Order:
    return send(chat_session, text, attachments=tuple(each.pk for each in uploads))


def url_of(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def shown(text: str, *files: bytes) -> list[dict[str, Any]]:
    said = [{"type": "text", "text": text}] if text else []
    return [*said, *({"type": "image_url", "image_url": {"url": url_of(each)}} for each in files)]


async def newest(turn: ChatTurn) -> ContextRecord:
    found = await ContextRecord.objects.filter(turn=turn).order_by("-attempt").afirst()
    assert found is not None
    return found


async def test_images_are_sent_behind_the_text_and_again_while_they_are_in_the_window(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    one, two = builders.png(color=1), builders.png(color=2)
    first, second = await upload(chat_session, data=one), await upload(chat_session, data=two)
    turn = await run_order(with_images(chat_session, "Compare", second, first))
    await run_order(send(chat_session, "And now?"))
    assert fake_endpoint.requests[0].body["messages"][-1]["content"] == shown("Compare", two, one)
    assert [each["content"] for each in fake_endpoint.requests[1].body["messages"]] == [
        builders.PROMPT,
        shown("Compare", two, one),
        "Hello there.",
        "And now?",
    ]
    message = await ChatMessage.objects.aget(pk=turn.input_id)
    assert [part["attachment"] for part in message.parts] == [str(second.pk), str(first.pk)]
    assert await Attachment.objects.filter(message=message).acount() == 2


async def test_an_image_needs_no_text(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    image = await upload(chat_session, "猫.png")
    await run_order(with_images(chat_session, "", image))
    assert fake_endpoint.requests[0].body["messages"][-1]["content"] == shown("", PNG)
    await chat_session.arefresh_from_db()
    assert chat_session.title == "猫.png"


async def test_images_are_counted_and_stand_in_the_manifest(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    image = await upload(chat_session, data=builders.png(600, 500))
    turn = await run_order(with_images(chat_session, "Look", image))
    part = (await newest(turn)).manifest["parts"][-1]
    text = counter_for("o200k_base")(Message.user("Look"))
    assert (part["images"], part["tokens"]) == (1, text + 85 + 2 * 170)
    assert turn.input.token_count == part["tokens"]


async def test_a_request_with_images_is_rebuilt_exactly_and_stores_none_of_them_again(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    image = await upload(chat_session)
    first = await run_order(with_images(chat_session, "Look", image))
    await sync_to_async(builders.preference)(chat_session.user)
    second = await run_order(with_images(chat_session, "Once more", await upload(chat_session)))
    for turn, request, kinds in (
        (first, fake_endpoint.requests[0], ["part", "illustrated"]),
        (second, fake_endpoint.requests[1], ["part", "illustrated", "message", "whole"]),
    ):
        record = await newest(turn)
        assert [kind for _, kind, _ in record.layout] == kinds
        rebuilt = await rebuild(record)
        assert (rebuilt.proof, rebuilt.missing) == ("ok", ())
        assert rebuilt.request["messages"] == request.body["messages"]
    stored = [part.text async for part in ContextPart.objects.all()]
    assert not any("base64" in text for text in stored)


async def test_a_file_that_is_gone_or_changed_is_told_by_the_proof(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    image = await upload(chat_session)
    record = await newest(await run_order(with_images(chat_session, "Look", image)))
    path = Path(default_storage.path(str(image.file.name)))
    path.write_bytes(builders.png(color=9))
    assert (await rebuild(record)).proof == "mismatch"
    path.unlink()
    rebuilt = await rebuild(record)
    assert (rebuilt.proof, rebuilt.missing) == ("missing", (f"image {image.pk}",))
    await run_order(send(chat_session, "And now?"))
    sent = [each["content"] for each in fake_endpoint.requests[1].body["messages"]]
    assert sent[1] == "Look\n\n[1 image was left out: the file is gone.]"


async def test_a_model_that_cannot_see_is_told_that_images_were_left_out(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    uploads = [await upload(chat_session), await upload(chat_session)]
    first = await run_order(with_images(chat_session, "", *uploads))
    await sync_to_async(see_nothing)(chat_session)
    turn = await run_order(send(chat_session, "What was it?"))
    sent = [each["content"] for each in fake_endpoint.requests[1].body["messages"]]
    assert sent[1] == "[2 images were left out: the model cannot see images.]"
    record = await newest(turn)
    assert record.manifest["parts"][1]["mark"] == "images_left_out"
    assert (await rebuild(record)).proof == "ok"
    with pytest.raises(Refused) as refused:
        await running.start(again("regenerate", first))
    assert refused.value.code == "no_vision"


def see_nothing(chat_session: ChatSession) -> None:
    endpoint = chat_session.assistant.endpoint
    endpoint.supports_vision = False
    endpoint.save()


async def test_the_oldest_images_are_left_out_where_a_request_would_hold_too_many_bytes(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_MAX_REQUEST_IMAGE_BYTES = 2 * len(PNG)
    for text in ("one", "two", "three"):
        await run_order(with_images(chat_session, text, await upload(chat_session)))
    sent = [each["content"] for each in fake_endpoint.requests[-1].body["messages"]]
    assert sent[1] == "one\n\n[1 image was left out: there was no room in the request.]"
    assert sent[3] == shown("two", PNG)
    assert sent[5] == shown("three", PNG)


async def test_images_of_messages_that_wait_for_a_summary_are_sent_with_them(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_MEMORY_SUMMARIZE_ENABLED = True
    settings.CHAT_MEMORY_MAX_MESSAGES = 2
    await Assistant.objects.aupdate(summarize=True)
    for text in ("one", "two", "three"):
        await run_order(with_images(chat_session, text, await upload(chat_session)))
    sent = [each["content"] for each in fake_endpoint.requests[-1].body["messages"]]
    assert (sent[1], sent[3]) == (shown("one", PNG), shown("two", PNG))


async def test_regenerating_and_editing_keep_the_images(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await run_order(with_images(chat_session, "Look", await upload(chat_session)))
    await run_order(again("regenerate", turn))
    edit = Order("edit", chat_session.pk, uuid.uuid4(), text="Look closely", message=turn.input_id)
    await run_order(edit)
    last = [each.body["messages"][-1]["content"] for each in fake_endpoint.requests]
    assert last == [shown("Look", PNG), shown("Look", PNG), shown("Look closely", PNG)]


async def test_the_snapshot_of_a_window_with_images_equals_a_rebuild(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await run_order(with_images(chat_session, "Look", await upload(chat_session)))
    turn = await run_order(send(chat_session, "second"))
    assert (await newest(turn)).manifest["source"] == "snapshot"
    await MemorySnapshot.objects.all().adelete()
    await run_order(again("regenerate", turn))
    held, rebuilt = (each.body["messages"] for each in fake_endpoint.requests[1:])
    assert held == rebuilt
    assert held[1]["content"] == shown("Look", PNG)


# --- Refused, and nothing stored ------------------------------------------------------------------


async def refused_code(order: Order) -> str:
    with pytest.raises(Refused) as refused:
        await running.start(order)
    assert await ChatMessage.objects.acount() == await ChatTurn.objects.acount() == 0
    return refused.value.code


async def test_an_endpoint_without_vision_refuses_before_anything_is_stored(
    chat_session: ChatSession,
) -> None:
    image = await upload(chat_session)
    await sync_to_async(see_nothing)(chat_session)
    assert await refused_code(with_images(chat_session, "Look", image)) == "no_vision"
    await image.arefresh_from_db()
    assert image.message_id is None


async def test_unknown_foreign_and_used_attachments_are_refused_alike(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    other = await sync_to_async(builders.chat_session)(assistant=chat_session.assistant)
    mine_elsewhere = await sync_to_async(builders.chat_session)(
        chat_session.user, assistant=chat_session.assistant
    )
    good = await upload(chat_session)
    somebodys = await upload(chat_session)
    await Attachment.objects.filter(pk=somebodys.pk).aupdate(uploader=other.user)
    unknown = Attachment(pk=uuid.uuid4())
    for bad in (await upload(other), await upload(mine_elsewhere), somebodys, unknown):
        code = await refused_code(with_images(chat_session, "Look", good, bad))
        assert code == "no_such_attachment"
    turn = await run_order(with_images(chat_session, "Look", good))
    assert turn.status == "completed"
    with pytest.raises(Refused) as refused:
        await running.start(with_images(chat_session, "Again", good))
    assert refused.value.code == "no_such_attachment"
    assert await ChatMessage.objects.acount() == 2


async def test_a_repeated_client_id_binds_its_images_once(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    order = with_images(chat_session, "Look", await upload(chat_session))
    await run_order(order)
    assert (await running.start(order)).is_repeated
    assert len(fake_endpoint.requests) == 1


async def test_a_temporary_session_takes_no_attachments(fake_endpoint: FakeEndpoint) -> None:
    make = sync_to_async(builders.chat_session)
    endpoint = await sync_to_async(builders.endpoint)(supports_vision=True)
    assistant = await sync_to_async(builders.assistant)(endpoint=endpoint)
    temporary = await make(is_temporary=True, assistant=assistant)
    order = send(temporary, "Look", attachments=(uuid.uuid4(),))
    assert await refused_code(order) == "no_attachments"


async def test_parts_of_an_imported_message_that_name_somebodys_image_bring_nothing(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    foreign = await upload(await sync_to_async(builders.chat_session)())
    part = attachments.message_part(foreign)
    make = sync_to_async(builders.exchange)
    turn = await make(chat_session, "imported")
    await ChatMessage.objects.filter(pk=turn.input_id).aupdate(
        parts=[part, {"type": "image", "attachment": "x"}, 7]
    )
    await run_order(send(chat_session, "Look"))
    sent = fake_endpoint.requests[0].body["messages"]
    assert sent[1]["content"] == f"imported\n\n[1 image was left out: {images.GONE}.]"


# --- Leaving --------------------------------------------------------------------------------------


def test_deleting_a_session_removes_the_files_of_its_images() -> None:
    chat_session, kept = builders.chat_session(), builders.attachment(builders.chat_session())
    gone = builders.attachment(chat_session)
    retention.forget_session(chat_session.pk)
    assert not gone.file.storage.exists(str(gone.file.name))
    assert kept.file.storage.exists(str(kept.file.name))
    assert list(Attachment.objects.all()) == [kept]
    assert not PendingRemoval.objects.exists()


@pytest.mark.parametrize(
    "take_away",
    [
        pytest.param(lambda image: retention.forget_session(image.chat_session_id), id="session"),
        pytest.param(lambda image: retention.remove_unsent(image.pk), id="image"),
    ],
)
def test_a_file_that_the_disk_does_not_let_go_is_removed_later(
    take_away: Callable[[Attachment], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = builders.attachment(builders.chat_session())

    def refuse(name: str) -> None:
        raise OSError(f"{name} is busy")

    with monkeypatch.context() as broken:
        broken.setattr(removals.default_storage, "delete", refuse)
        take_away(image)
    assert FollowUp.objects.filter(kind="removals").exists()
    pending = PendingRemoval.objects.get()
    assert (pending.kind, pending.name, pending.attempts) == ("file", image.file.name, 1)
    assert "is busy" in pending.last_error
    assert image.file.storage.exists(str(image.file.name))
    assert removals.retry() == (1, 0)
    assert not image.file.storage.exists(str(image.file.name))


def test_an_upload_into_a_session_that_is_deleted_meanwhile_leaves_no_file() -> None:
    chat_session = builders.chat_session()
    person = chat_session.user
    retention.forget_session(chat_session.pk)
    with pytest.raises(ChatSession.DoesNotExist):
        attachments.store(chat_session, person, "a.png", PNG)
    assert files_on_disk() == set()


def test_what_nobody_sends_for_a_day_goes_and_what_was_sent_stays() -> None:
    chat_session = builders.chat_session()
    old, new, sent = (builders.attachment(chat_session) for _ in range(3))
    attachments.bind([sent], builders.message(chat_session))
    day_ago = timezone.now() - timedelta(hours=25)
    Attachment.objects.exclude(pk=new.pk).update(created_at=day_ago)
    call_command("reap_turns")
    assert set(Attachment.objects.all()) == {new, sent}
    assert not old.file.storage.exists(str(old.file.name))
