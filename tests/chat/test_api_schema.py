"""The OpenAPI description: whole, valid, and only for people who are signed in."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from django.core.management import call_command

from chat.api.urls import urlpatterns as api_urls
from tests import builders
from tests.chat.api import Api

pytestmark = [pytest.mark.django_db, pytest.mark.pages]


@pytest.fixture
def description(tmp_path: Any) -> Any:
    target = tmp_path / "schema.yml"
    call_command("spectacular", "--fail-on-warn", "--validate", "--file", str(target))
    return yaml.safe_load(target.read_text("utf-8"))


def test_every_address_is_described_without_a_warning(description: Any) -> None:
    addresses = [str(each.pattern) for each in api_urls if str(each.pattern)]
    assert len(description["paths"]) == len(addresses) > 10


def test_every_operation_has_a_name_a_text_and_its_problems(description: Any) -> None:
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            assert operation["description"], (method, path)
            assert "_" in operation["operationId"], (method, path)
            for status in ("401", "406", "429"):
                answers = operation["responses"][status]["content"]
                assert list(answers) == ["application/problem+json"], (method, path)
            if "requestBody" in operation:
                assert {"400", "413", "415"} <= set(operation["responses"]), (method, path)
            if method != "get":
                assert "403" in operation["responses"], (method, path)


def test_a_body_is_described_with_its_fields_alone_and_without_blank_text(description: Any) -> None:
    schemas = description["components"]["schemas"]
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {})
            if "application/json" not in content:
                continue
            name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
            assert schemas[name]["additionalProperties"] is False, (method, path)
    assert schemas["NewPreference"]["properties"]["key"]["minLength"] == 1
    assert "minLength" not in schemas["NewSession"]["properties"]["title"]


def test_the_description_and_its_page_are_for_people_who_are_signed_in() -> None:
    nobody, somebody = Api(None).client, Api(builders.user()).client
    assert nobody.get("/api/schema/").status_code == 401
    assert nobody.get("/api/docs/")["Location"] == "/accounts/login/?next=/api/docs/"
    assert somebody.get("/api/schema/").status_code == 200
    page = somebody.get("/api/docs/")
    assert page.status_code == 200
    assert "<style" not in page.content.decode()
    policy = page["Content-Security-Policy"].split("; ")
    assert {"script-src 'self'", "style-src 'self'"} <= set(policy)
