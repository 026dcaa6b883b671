"""One call to a model for a follow-up: its own parameters, and a row that says what it cost."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from chat import llm, usage
from chat.follow_ups.answers import Rejected, text_of
from chat.follow_ups.prompts import Form
from chat.hops import urgent_hop
from chat.llm import EndpointSpec, LLMError, Usage
from chat.models import ChatSession, ModelCall, ModelEndpoint
from chat.turns import policies
from memory.tokens import count_text

T = TypeVar("T")
NO_SESSION = uuid.UUID(int=0)
OVERHEAD = 16  # tokens of a request beside its two texts


@dataclass(frozen=True)
class Question:
    """What a model is asked for a follow-up, and on whose account."""

    kind: str
    tenant_id: int
    session_id: uuid.UUID | None
    endpoint: ModelEndpoint
    prompt: str
    data: Mapping[str, Any]
    max_tokens: int
    form: Form | None = None

    @property
    def spec(self) -> EndpointSpec:
        spec = policies.endpoint_spec(self.endpoint)
        return replace(spec, timeout=min(spec.timeout, float(settings.CHAT_FOLLOW_UP_SECONDS)))

    @property
    def request(self) -> dict[str, Any]:
        """Nothing of the assistant's own parameters: they are for its conversations."""
        request: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": self._messages(),
            "max_tokens": output_tokens(self.endpoint, self.max_tokens),
        }
        if self.form is not None and self.endpoint.supports_json_schema:
            request["response_format"] = self.form.response_format
        return request

    def _messages(self) -> list[dict[str, str]]:
        data = json.dumps(self.data, ensure_ascii=False)
        if self.endpoint.strict_roles:
            return [{"role": "user", "content": f"{self.prompt}\n\n{data}"}]
        return [
            {"role": "system", "content": self.prompt},
            {"role": "user", "content": data},
        ]


async def ask(question: Question, read: Callable[[str], T]) -> T:
    """The answer as `read` understands it; `LLMError` or `Rejected`, and a row in any case."""
    started_at = timezone.now()
    spent, error = None, "cancelled"
    try:
        completion = await llm.complete(question.spec, question.request)
        spent, error = completion.usage, "internal_error"
        answer = read(text_of(completion))
        error = ""
    except (LLMError, Rejected) as problem:
        error = problem.code
        raise
    finally:
        await asyncio.shield(urgent_hop(_record, question, started_at, spent, error))
    return answer


def _record(question: Question, started_at: datetime, spent: Usage | None, error: str) -> None:
    """What the call cost, kept even where its session is gone."""
    values: dict[str, Any] = {
        "tenant_id": question.tenant_id,
        "kind": question.kind,
        "endpoint_name": question.endpoint.name,
        "model_name": question.endpoint.model,
        "error_code": error,
        "started_at": started_at,
    }
    if spent is not None:
        values |= {
            "input_tokens": spent.input,
            "cached_input_tokens": spent.cached_input,
            "output_tokens": spent.output,
            "cost": question.endpoint.cost_of(spent.input, spent.cached_input, spent.output),
        }
    try:
        with transaction.atomic():
            alive = ChatSession.objects.filter(pk=question.session_id or NO_SESSION).exists()
            ModelCall.objects.create(
                chat_session_id=question.session_id if alive else None, **values
            )
    except IntegrityError:  # deleted in this moment
        ModelCall.objects.create(**values)
    usage.mark(usage.day_of(timezone.now()))


def output_tokens(endpoint: ModelEndpoint, wanted: int) -> int:
    """What an answer may have: `wanted`, or what the endpoint gives."""
    return min(wanted, policies.output_tokens(endpoint))


def room_for_data(endpoint: ModelEndpoint, prompt: str, wanted: int) -> int:
    """Tokens that the data of a request may have beside its prompt and an answer of `wanted`."""
    window = policies.context_window(endpoint)
    margin = window * settings.CHAT_CONTEXT_MARGIN_PERCENT // 100
    room = window - output_tokens(endpoint, wanted) - margin
    counted = int(room / max(endpoint.token_correction, 1.0))
    return counted - count_text(prompt, endpoint.encoding) - OVERHEAD
