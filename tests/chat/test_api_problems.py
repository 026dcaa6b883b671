"""Refusals of the API: problem documents, whatever is thrown at it."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from django.test.client import MULTIPART_CONTENT

from chat import hops, leases
from chat.api import problems
from chat.models import ChatSession
from chat.temporary import TextsUnavailable
from chat.turns import Refused
from tests import builders
from tests.chat.api import ROOT, Api, field_errors

pytestmark = [pytest.mark.django_db, pytest.mark.pages]


@pytest.fixture
def api() -> Api:
    builders.tenant("default")
    builders.assistant(is_default=True)
    return Api(builders.user("alice"))


def problem(response: Any) -> tuple[int, str]:
    """Status and code of a problem document, which must be a whole one."""
    assert response["Content-Type"] == "application/problem+json", response.content
    document = response.json()
    assert {"type", "title", "status", "code", "detail"} <= set(document)
    assert document["status"] == response.status_code
    return response.status_code, document["code"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b"nonsense",
        b'{"title": NaN}',
        b'{"title": Infinity}',
        b'{"title": "\xff\xfe"}',
        b'{"title": "' + b"x" * 100,
        b'{"title": 1' + b"0" * 5000 + b"}",
        b"[" * 100_000,
        b'{"title": ' + b'{"a":' * 100_000,
        b'\x00{"title": "x"}',
        "{“title”: “x”}".encode(),
    ],
)
def test_a_body_that_is_not_json_is_a_problem(api: Api, body: bytes) -> None:
    response = api.raw("post", "/sessions/", body)
    if not body:
        assert response.status_code == 201  # nothing was said, and nothing need be
    else:
        assert problem(response) == (400, "parse_error")
        assert not ChatSession.objects.exists()


@pytest.mark.parametrize("body", ["[]", '"text"', "null", "1", "true", '[{"title": "x"}]'])
def test_json_that_is_no_object_is_a_problem(api: Api, body: str) -> None:
    assert "body" in field_errors(api.raw("post", "/sessions/", body))


def test_a_byte_order_mark_is_no_problem(api: Api) -> None:
    response = api.raw("post", "/sessions/", b'\xef\xbb\xbf{"title": "x"}')
    assert (response.status_code, response.json()["title"]) == (201, "x")


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        MULTIPART_CONTENT,
        "multipart/form-data",
        "application/xml",
        "nonsense",
        "",
        "application/json\x00",
    ],
)
def test_another_content_type_is_a_problem(api: Api, content_type: str) -> None:
    response = api.raw("post", "/sessions/", b'{"title": "x"}', content_type=content_type)
    assert problem(response) == (415, "unsupported_media_type")


def test_a_body_of_more_than_the_limit_is_too_large(api: Api, settings: LazySettings) -> None:
    settings.CHAT_MAX_FRAME_BYTES = 1000
    most = b'{"title": ""' + b" " * 987 + b"}"
    assert api.raw("post", "/sessions/", most).status_code == 201
    response = api.raw("post", "/sessions/", most + b" ")
    assert problem(response) == (413, "too_large")
    assert response.json()["detail"] == "The body is longer than 1000 bytes; send less at once."


def test_ten_megabytes_are_too_large(api: Api) -> None:
    body = json.dumps({"title": "x" * 10_000_000})
    assert problem(api.raw("post", "/sessions/", body)) == (413, "too_large")


def test_a_form_of_ten_megabytes_is_a_problem(api: Api) -> None:
    body = b"a=" + b"x" * 10_000_000
    response = api.raw("post", "/sessions/", body, content_type="application/x-www-form-urlencoded")
    assert problem(response) in {(413, "too_large"), (415, "unsupported_media_type")}


@pytest.mark.parametrize("name", ["\x00", "\ud800", "字" * 500, "__proto__", "title\n"])
def test_a_field_of_any_name_is_refused_by_it(api: Api, name: str) -> None:
    (named,) = field_errors(api.post("/sessions/", {name: "x"}))
    assert named == problems.shown(name)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("put", "/sessions/", (405, "method_not_allowed")),
        ("delete", "/sessions/", (405, "method_not_allowed")),
        ("post", "/assistants/", (405, "method_not_allowed")),
        ("post", "/nowhere/", (404, "not_found")),
        ("post", "/sessions", (404, "not_found")),
        ("post", "/%ED%A0%80/", (404, "not_found")),
        ("post", "/%00/", (404, "not_found")),
    ],
)
def test_another_method_or_address_is_a_problem(
    api: Api, method: str, path: str, expected: tuple[int, str]
) -> None:
    assert problem(api.send(method, path, {})) == expected


@pytest.mark.parametrize("rest", ["", "messages/", "turns/"])
def test_every_address_says_which_methods_it_has(api: Api, rest: str) -> None:
    response = api.raw("options", f"/sessions/{uuid.uuid4()}/{rest}", "")
    assert response.status_code == 200
    assert response["Allow"].endswith("OPTIONS")


def test_an_answer_in_another_form_than_json_is_not_to_be_had(api: Api) -> None:
    response = api.client.get(f"{ROOT}/sessions/", headers={"Accept": "text/html"})
    assert problem(response) == (406, "not_acceptable")


# --- Signing in and CSRF --------------------------------------------------------------------------


def test_a_change_without_a_csrf_token_is_refused_and_not_made() -> None:
    builders.tenant("default")
    builders.assistant(is_default=True)
    api = Api(builders.user(), enforce_csrf_checks=True)
    response = api.post("/sessions/", {})
    assert problem(response) == (403, "csrf_failed")
    assert response.json()["detail"].endswith("cookie as X-CSRFToken.")
    assert not ChatSession.objects.exists()


def test_a_change_with_the_token_of_the_cookie_is_made() -> None:
    builders.tenant("default")
    builders.assistant(is_default=True)
    api = Api(builders.user(), enforce_csrf_checks=True)
    token = "a" * 32
    api.client.cookies["csrftoken"] = token
    assert api.post("/sessions/", {}, **{"X-CSRFToken": token}).status_code == 201
    assert problem(api.post("/sessions/", {}, **{"X-CSRFToken": "b" * 32})) == (403, "csrf_failed")


def test_a_change_from_another_origin_is_refused() -> None:
    api = Api(builders.user(), enforce_csrf_checks=True)
    api.client.cookies["csrftoken"] = "a" * 32
    headers = {"X-CSRFToken": "a" * 32, "Origin": "https://evil.example"}
    assert problem(api.post("/sessions/", {}, **headers)) == (403, "csrf_failed")


def test_starting_a_turn_needs_the_token_as_well() -> None:
    chat_session = builders.chat_session()
    api = Api(chat_session.user, enforce_csrf_checks=True)
    response = api.post(f"/sessions/{chat_session.pk}/turns/", {"text": "Hi"})
    assert problem(response) == (403, "csrf_failed")
    assert chat_session.turns.count() == 0


def test_a_basic_password_opens_nothing() -> None:
    builders.user("alice")
    response = Client().get(f"{ROOT}/sessions/", headers={"Authorization": "Basic YWxpY2U6eA=="})
    assert problem(response) == (401, "not_authenticated")


# --- From exceptions to problems ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        (Refused("turn_in_progress", "Stop it."), 409),
        (Refused("stale_parent", "Look.", head="x"), 409),
        (Refused("before_forget_line", "Anew."), 409),
        (Refused("empty_message", "The message is empty."), 400),
        (Refused("input_too_long", "Shorten.", tokens=9, limit=5), 422),
        (Refused("prompt_too_long", "Shorten."), 422),
        (Refused("session_deleted", "Gone."), 404),
        (Refused("no_such_turn", "None."), 404),
        (Refused("no_such_message", "None."), 404),
        (Refused("rate_limited", "Wait."), 429),
        (Refused("temporary_unavailable", "Wait."), 503),
    ],
)
def test_a_refused_turn_keeps_its_code_and_its_numbers(refused: Refused, status: int) -> None:
    found = problems.problem_of(refused)
    assert found is not None
    assert (found.status, found.code, found.detail) == (status, refused.code, refused.detail)
    assert dict(found.more) == refused.more


def test_an_overloaded_server_says_when_to_come_back() -> None:
    found = problems.problem_of(hops.Overloaded("busy"))
    assert found is not None
    assert (found.status, found.code, found.headers) == (503, "overloaded", {"Retry-After": "1"})


def test_a_store_of_temporary_text_that_is_away_is_no_error_of_the_server() -> None:
    found = problems.problem_of(TextsUnavailable("away"))
    assert found is not None
    assert (found.status, found.code, found.detail) == (503, "temporary_unavailable", "away")


def test_a_session_that_went_meanwhile_looks_like_any_unknown_one() -> None:
    found = problems.problem_of(leases.Gone("session 5"))
    assert found is not None
    assert (found.status, found.code, found.detail) == (
        404,
        "not_found",
        "There is no such session.",
    )


def test_an_error_that_nobody_foresaw_is_not_hidden() -> None:
    assert problems.problem_of(RuntimeError("a bug")) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (1, "1"),
        (True, "true"),
        ("short", "short"),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        ("a\x00b\ud800", "ab\ufffd"),
        ({"a": "字"}, '{"a": "\\u5b57"}'),
    ],
)
def test_a_refused_value_is_repeated_short_and_clean(value: Any, text: str | None) -> None:
    assert problems.shown(value) == text


def test_an_image_has_no_options(api: Api) -> None:
    refused = api.client.options(f"{ROOT}/attachments/{uuid.uuid4()}/file/")
    assert problem(refused) == (405, "method_not_allowed")
    assert refused["Allow"] == "GET, HEAD, OPTIONS"
