"""A test call to an endpoint: what was sent, what came back, how long it took. Nothing is stored
but that it was made."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, replace
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path

from chat import llm
from chat.admin import audit
from chat.models import Assistant, ModelEndpoint
from chat.turns import policies
from memory.text import clean

QUESTION = "Answer with one word: are you there?"
LONGEST = 2_000  # characters of a question
SECONDS = 30.0  # for a person who waits
MOST_TOKENS = 200  # of the answer


@dataclass(frozen=True)
class Called:
    """What came of a call; `error` is empty when an answer came."""

    request: str
    seconds: float
    answer: str = ""
    finish_reason: str = ""
    usage: llm.Usage | None = None
    error: str = ""


def call(endpoint: ModelEndpoint, request: dict[str, Any]) -> Called:
    """Ask the endpoint once, without retries."""
    spec = replace(policies.endpoint_spec(endpoint), timeout=SECONDS, max_retries=0)
    shown = json.dumps(request, ensure_ascii=False, indent=2)
    began = time.monotonic()
    try:
        completion = asyncio.run(_complete(spec, request))
    except llm.LLMError as error:
        return Called(shown, time.monotonic() - began, error=f"{error.code}: {error.detail}")
    calls = "".join(f"\n{each.name}({each.arguments})" for each in completion.tool_calls)
    return Called(
        shown,
        time.monotonic() - began,
        answer=(completion.text + calls).strip(),
        finish_reason=completion.finish_reason,
        usage=completion.usage,
    )


async def _complete(spec: llm.EndpointSpec, request: dict[str, Any]) -> llm.Completion:
    """One call on an event loop of its own, whose connections are closed with it: those of the
    server's loop carry other people's answers."""
    try:
        return await llm.complete(spec, request)
    finally:
        await llm.aclose()


class TestCallPage(admin.ModelAdmin):
    """The address `<id>/test/` of endpoints and assistants, for superusers: it costs money, and it
    reaches whatever address the endpoint names."""

    def get_urls(self) -> list[Any]:
        name = f"chat_{self.opts.model_name}_test"
        view = self.admin_site.admin_view(self.test_view)
        return [path("<path:object_id>/test/", view, name=name), *super().get_urls()]

    def test_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if not request.user.is_superuser:
            raise PermissionDenied("Test calls are for superusers.")
        found = self.get_object(request, object_id)
        if found is None:
            raise Http404("There is no such row.")
        question = clean(request.POST.get("question", "")).strip()[:LONGEST] or QUESTION
        called = self.test(request, found, question) if request.method == "POST" else None
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"Test call to {found}",
            "row": found,
            "question": question,
            "called": called,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/chat/test_call.html", context)

    def test(self, request: HttpRequest, row: ModelEndpoint | Assistant, question: str) -> Called:
        called = call(*self.asked(row, question))
        kind = "endpoint" if isinstance(row, ModelEndpoint) else "assistant"
        audit.note(request, f"{kind}.test", kind, row.pk)
        return called

    def asked(
        self, row: ModelEndpoint | Assistant, question: str
    ) -> tuple[ModelEndpoint, dict[str, Any]]:
        """The endpoint, and the request: an assistant's with its prompt and parameters."""
        user = {"role": "user", "content": question}
        if isinstance(row, ModelEndpoint):
            limit = min(MOST_TOKENS, row.max_output_tokens)
            return row, {"model": row.model, "messages": [user], "max_tokens": limit}
        system = [{"role": "system", "content": row.system_prompt}] if row.system_prompt else []
        parameters = policies.request_parameters(row)
        return row.endpoint, {**parameters, "messages": [*system, user]}
