"""A person's way into the REST API, for tests."""

from __future__ import annotations

import json
from typing import Any

from django.test import AsyncClient, Client

ROOT = "/api/v1"
BACKEND = "django.contrib.auth.backends.ModelBackend"
JSON = "application/json"


class Api:
    """JSON requests below /api/v1/ as one person; None is nobody."""

    def __init__(self, person: Any, **options: Any) -> None:
        self.client = Client(**options)
        if person is not None:
            self.client.force_login(person, backend=BACKEND)

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(f"{ROOT}{path}", query)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("post", path, body, **headers)

    def patch(self, path: str, body: Any = None) -> Any:
        return self.send("patch", path, body)

    def delete(self, path: str) -> Any:
        return self.client.delete(f"{ROOT}{path}")

    def send(self, method: str, path: str, body: Any, **headers: str) -> Any:
        return self.raw(method, path, json.dumps({} if body is None else body), **headers)

    def raw(
        self, method: str, path: str, body: str | bytes, content_type: str = JSON, **headers: str
    ) -> Any:
        return self.client.generic(
            method.upper(), f"{ROOT}{path}", body, content_type=content_type, headers=headers
        )


class AsyncApi:
    """The same on the test's own event loop, where turns then run."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client

    @classmethod
    async def of(cls, person: Any) -> AsyncApi:
        client = AsyncClient()
        await client.aforce_login(person, backend=BACKEND)
        return cls(client)

    async def get(self, path: str) -> Any:
        return await self.client.get(f"{ROOT}{path}")

    async def post(self, path: str, body: Any, **headers: str) -> Any:
        text = json.dumps(body)
        return await self.client.post(f"{ROOT}{path}", text, content_type=JSON, headers=headers)


def field_errors(response: Any) -> dict[str, tuple[str | None, str]]:
    """The fields that a refusal names, each with the value shown and what to do."""
    assert response.status_code == 400, response.content
    problem = response.json()
    assert problem["code"] == "invalid", problem
    return {each["field"]: (each["value"], each["message"]) for each in problem["errors"]}
