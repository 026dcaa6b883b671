"""Images over REST: uploaded, shown to their owner alone, sent, removed; and shown to staff."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chat import llm
from chat.models import Attachment, AuditEvent, ChatMessage, ChatSession
from tests import builders
from tests.chat.admin_site import READ, signed_in, text_of, transcript_url, viewer
from tests.chat.api import ROOT, Api, AsyncApi
from tests.fakes import FakeEndpoint

pytestmark = pytest.mark.django_db(transaction=True)

PNG = builders.png()


@pytest.fixture(autouse=True)
def _folder(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path


@pytest.fixture
def chat_session() -> ChatSession:
    return builders.chat_session()


@pytest.fixture
def api(chat_session: ChatSession) -> Api:
    return Api(chat_session.user)


def upload(api: Api, chat_session: ChatSession, data: bytes = PNG, name: str = "red.png") -> Any:
    file = SimpleUploadedFile(name, data, content_type="text/html")
    path = f"{ROOT}/sessions/{chat_session.pk}/attachments/"
    return api.client.post(path, {"file": file})


def problem(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


# --- Uploading ------------------------------------------------------------------------------------


def test_an_image_is_stored_as_what_it_is(api: Api, chat_session: ChatSession) -> None:
    response = upload(api, chat_session, name="猫 😄.jpg")
    made = Attachment.objects.get()
    assert response.status_code == 201
    assert response.json() == {
        "id": str(made.pk),
        "name": "猫 😄.jpg",
        "content_type": "image/png",
        "size": len(PNG),
        "width": 8,
        "height": 6,
        "url": f"/api/v1/attachments/{made.pk}/file/",
    }
    assert (made.uploader, made.message, made.chat_session) == (
        chat_session.user,
        None,
        chat_session,
    )


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"<!doctype html><script>alert(1)</script>", 415, "unsupported_type"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "unsupported_type"),
        (b"", 422, "empty_file"),
        (PNG[:-1], 422, "broken_image"),
        (PNG + b"\x00" * 5_242_880, 413, "too_large"),
    ],
)
def test_what_is_no_image_is_refused_and_leaves_nothing(
    api: Api, chat_session: ChatSession, tmp_path: Path, data: bytes, status: int, code: str
) -> None:
    assert problem(upload(api, chat_session, data)) == (status, code)
    assert not Attachment.objects.exists()
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_a_form_without_its_one_file_is_refused(api: Api, chat_session: ChatSession) -> None:
    path = f"/sessions/{chat_session.pk}/attachments/"
    client, file = api.client, SimpleUploadedFile("a.png", PNG)
    assert problem(client.post(f"{ROOT}{path}", {"text": "x"})) == (400, "invalid")
    assert problem(client.post(f"{ROOT}{path}", {"other": file})) == (400, "invalid")
    assert problem(api.post(path, {"file": "x"})) == (415, "unsupported_media_type")
    broken = api.raw("post", path, b"rubbish", content_type="multipart/form-data; boundary=x")
    assert broken.status_code == 400
    assert not Attachment.objects.exists()


def test_a_temporary_session_takes_none(api: Api, chat_session: ChatSession) -> None:
    temporary = builders.chat_session(chat_session.user, is_temporary=True)
    assert problem(upload(api, temporary)) == (409, "no_attachments")


def test_nothing_is_uploaded_into_somebody_elses_session(api: Api) -> None:
    assert problem(upload(api, builders.chat_session())) == (404, "not_found")
    assert problem(upload(api, ChatSession(pk=uuid.uuid4()))) == (404, "not_found")
    assert not Attachment.objects.exists()


def test_an_upload_wants_its_csrf_token(chat_session: ChatSession) -> None:
    careful = Api(chat_session.user, enforce_csrf_checks=True)
    assert problem(upload(careful, chat_session)) == (403, "csrf_failed")


# --- Looking --------------------------------------------------------------------------------------


def test_a_browser_can_do_nothing_with_the_file_but_show_it(
    api: Api, chat_session: ChatSession
) -> None:
    image = builders.attachment(chat_session, 'a"b; x=1\u00e9.html')
    url = f"{ROOT}/attachments/{image.pk}/file/"
    for accept in ("image/avif,image/webp,*/*;q=0.8", "application/json"):
        response = api.client.get(url, headers={"Accept": accept})
        assert (response.status_code, response.content) == (200, PNG)
        assert response.headers["Content-Type"] == "image/png"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert response.headers["Content-Disposition"] == (
            "inline; filename*=utf-8''a%22b%3B%20x%3D1%C3%A9.html"
        )
        assert response.headers["Cache-Control"] == "private, no-store"


def test_foreign_and_unknown_images_are_not_found_alike(
    api: Api, chat_session: ChatSession
) -> None:
    foreign = builders.attachment(builders.chat_session())
    tenant = builders.tenant("elsewhere")
    elsewhere = builders.attachment(builders.chat_session(chat_session.user, tenant=tenant))
    answers = []
    for pk in (uuid.uuid4(), foreign.pk, elsewhere.pk):
        for method in (api.get, api.delete):
            path = f"/attachments/{pk}/file/" if method == api.get else f"/attachments/{pk}/"
            with CaptureQueriesContext(
                connection,
            ) as queries:
                response = method(path)
            answers.append((method.__name__, problem(response), response.content, len(queries)))
    assert len(set(answers)) == 2
    assert {each[1] for each in answers} == {(404, "not_found")}
    assert Attachment.objects.count() == 2


def test_nobody_sees_an_image_without_signing_in(chat_session: ChatSession) -> None:
    image = builders.attachment(chat_session)
    assert Api(None).get(f"/attachments/{image.pk}/file/").status_code == 401


def test_a_file_that_is_gone_is_not_found(api: Api, chat_session: ChatSession) -> None:
    image = builders.attachment(chat_session)
    image.file.storage.delete(str(image.file.name))
    assert problem(api.get(f"/attachments/{image.pk}/file/")) == (404, "not_found")


def test_an_image_is_removed_before_it_is_sent_and_not_after(
    api: Api, chat_session: ChatSession, tmp_path: Path
) -> None:
    removed, sent = builders.attachment(chat_session), builders.attachment(chat_session)
    Attachment.objects.filter(pk=sent.pk).update(message=builders.message(chat_session))
    assert api.delete(f"/attachments/{removed.pk}/").status_code == 204
    assert problem(api.delete(f"/attachments/{sent.pk}/")) == (409, "already_sent")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [
        Path(str(sent.file.name)).name
    ]


# --- Sending --------------------------------------------------------------------------------------


@pytest.fixture
def seeing(fake_endpoint: FakeEndpoint) -> ChatSession:
    endpoint = builders.endpoint(
        base_url=fake_endpoint.base_url, model="fake", supports_vision=True
    )
    return builders.chat_session(assistant=builders.assistant(endpoint=endpoint))


@pytest.fixture
async def sender(seeing: ChatSession) -> AsyncIterator[AsyncApi]:
    yield await AsyncApi.of(seeing.user)
    await llm.aclose()


async def post(sender: AsyncApi, seeing: ChatSession, **body: Any) -> Any:
    body = {"text": "Look", "client_id": str(uuid.uuid4()), **body}
    return await sender.post(f"/sessions/{seeing.pk}/turns/", body)


async def test_a_message_is_sent_and_shown_with_its_images(
    sender: AsyncApi, seeing: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    image = await sync_to_async(builders.attachment)(seeing)
    response = await post(sender, seeing, text="", attachments=[str(image.pk)])
    assert response.status_code == 200, response.content
    turn = response.json()
    listed = (await sender.get(f"/sessions/{seeing.pk}/messages/")).json()["results"]
    assert [each["id"] for each in listed[0]["attachments"]] == [str(image.pk)]
    assert (listed[0]["content"], listed[1]["attachments"]) == ("", [])
    shown = (await sender.get(f"/sessions/{seeing.pk}/turns/{turn['id']}/context/")).json()
    assert (shown["proof"], shown["parts"][-1]["images"]) == ("ok", 1)
    assert shown["parts"][-1]["text"] == ""
    assert b"base64" not in str(shown).encode()


async def test_images_that_cannot_be_sent_are_refused_by_name(
    sender: AsyncApi, seeing: ChatSession
) -> None:
    unknown = [str(uuid.uuid4())]
    many = [str(uuid.uuid4()) for _ in range(5)]
    assert problem(await post(sender, seeing, attachments=unknown)) == (404, "no_such_attachment")
    assert problem(await post(sender, seeing, attachments=many)) == (409, "too_many_attachments")
    assert problem(await post(sender, seeing, attachments=["x"])) == (400, "invalid")
    assert problem(await post(sender, seeing, text=" ", attachments=[])) == (400, "empty_message")
    endpoint = seeing.assistant.endpoint
    endpoint.supports_vision = False
    await endpoint.asave()
    assert problem(await post(sender, seeing, attachments=unknown)) == (409, "no_vision")
    assert await ChatMessage.objects.acount() == 0


# --- Staff ----------------------------------------------------------------------------------------


def sent_image(chat_session: ChatSession) -> Attachment:
    from chat import attachments

    image = builders.attachment(chat_session, "red <b>.png")
    message = builders.message(chat_session, parts=[attachments.message_part(image)])
    attachments.bind([image], message)
    return image


def staff_url(image: Attachment) -> str:
    ids = [image.chat_session_id, image.pk]
    return reverse("admin:chat_chatsession_attachment", args=ids)


def test_staff_who_may_read_see_the_images_of_a_transcript_and_each_look_is_recorded(
    chat_session: ChatSession,
) -> None:
    image = sent_image(chat_session)
    client = signed_in(viewer(READ))
    page = text_of(client.get(transcript_url(chat_session)))
    assert f'<img src="{staff_url(image)}" alt="red <b>.png"' in page
    response = client.get(staff_url(image))
    assert (response.status_code, response.content) == (200, PNG)
    assert "sandbox" in response.headers["Content-Security-Policy"]
    event = AuditEvent.objects.get(action="attachment.read")
    assert (event.object_type, event.object_id) == ("attachment", str(image.pk))


def test_staff_who_may_not_read_see_neither_image_nor_name(chat_session: ChatSession) -> None:
    image = sent_image(chat_session)
    client = signed_in(viewer())
    page = text_of(client.get(transcript_url(chat_session)))
    assert "red" not in page
    assert client.get(staff_url(image)).status_code == 403
    assert not AuditEvent.objects.filter(action="attachment.read").exists()


def test_staff_see_no_images_of_other_tenants(chat_session: ChatSession) -> None:
    image = sent_image(chat_session)
    foreign = signed_in(viewer(READ, tenants=[builders.tenant("elsewhere")]))
    assert foreign.get(staff_url(image)).status_code == 404
    other = sent_image(builders.chat_session())
    crossed = reverse("admin:chat_chatsession_attachment", args=[chat_session.pk, other.pk])
    assert signed_in(viewer(READ)).get(crossed).status_code == 404
    assert Client().get(staff_url(image)).status_code == 302
