"""What can go wrong with a model call, in our own words and without any secret."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

MAX_DETAIL: Final = 300

CONTEXT_CODES: Final = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"}
)
CONTEXT_TEXTS: Final = (  # as OpenAI, vLLM, llama.cpp, Anthropic, Gemini, TGI, DashScope say it
    "maximum context length",
    "context length exceeded",
    "exceeds the context length",
    "exceeds the context window",
    "exceed context window",
    "context window exceeded",
    "available context size",
    "prompt is too long",
    "input is too long",
    "reduce the length of the messages",
    "input token count",
    "range of input length should be",
    "`inputs` tokens + `max_new_tokens` must be",
    "max_model_len",
    "上下文长度",
    "输入长度超",
)
CONTEXT_LIMITS: Final = (
    re.compile(r"maximum context length (?:is|of) (\d+)", re.I),
    re.compile(r"(\d+) maximum context length", re.I),
    re.compile(r"maximum number of tokens allowed \((\d+)\)", re.I),
    re.compile(r"\d+ tokens > (\d+) maximum", re.I),
    re.compile(r"must be <= (\d+)", re.I),
    re.compile(r"range of input length should be \[\d+, ?(\d+)\]", re.I),
)
SECRET: Final = re.compile(r"\b(?:sk|pk|key|token)-[\w*.-]{6,}|(?<=Bearer )[^\s\"']+", re.I)


class LLMError(Exception):
    """A model call that failed: a stable `code` and a short `detail` that may be shown and stored.

    codes: connect_failed, timeout, rate_limited, provider_error, bad_request, auth_failed,
    context_length, bad_response, missing_key, endpoint_refused.
    `retryable`: asking again may help. `transient`: the client itself may ask again as long as
    nothing of an answer has come. `retry_after`: seconds that the endpoint asked to wait.
    `context_limit`: the endpoint's own limit in tokens, where a context_length error names it.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        retryable: bool = False,
        transient: bool = False,
        retry_after: float | None = None,
        context_limit: int | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.retryable = retryable
        self.transient = transient
        self.retry_after = retry_after
        self.context_limit = context_limit


def connect_failed(detail: str) -> LLMError:
    """No connection, or one that was lost before anything of an answer came."""
    return LLMError("connect_failed", detail, retryable=True, transient=True)


def timed_out(detail: str) -> LLMError:
    """A deadline passed. Not tried again by itself: the waiting has been long enough."""
    return LLMError("timeout", detail, retryable=True)


def bad_response(detail: str) -> LLMError:
    """The endpoint answered with something that is not an answer."""
    return LLMError("bad_response", detail, retryable=True)


def broke_off(host: str) -> LLMError:
    """The connection was lost after the response had begun."""
    return LLMError(
        "provider_error",
        f"{host} broke off in the middle of its answer.",
        retryable=True,
        transient=True,
    )


class UsageRefused(LLMError):
    """The endpoint refuses `stream_options`; the same request without it may be answered."""


def from_error_object(body: object, *, host: str, key: str) -> LLMError:
    """An error object inside a response that began as a success (HTTP 200)."""
    error = error_object(body)
    code = error.get("code")
    status = int(str(code)) if str(code).isdecimal() else 0
    return classify(status, error, where=host, text=message_of(error, "", key))


def classify(
    status: int,
    error: Mapping[str, object],
    *,
    where: str,
    text: str,
    retry_after: float | None = None,
) -> LLMError:
    """Our error for a status and an OpenAI error object; status 0 means: none was given."""
    code = str(error.get("code") or error.get("type") or "")
    detail = f"{where}: {text}" if text else f"{where} gave no reason."
    if is_context_length(error, text):
        return LLMError("context_length", detail, context_limit=context_limit(error, text))
    if status == 429 or code.startswith("rate_limit"):
        spent = "insufficient_quota" in (code, error.get("type"))
        return LLMError(
            "rate_limited",
            detail,
            retryable=not spent,
            transient=not spent,
            retry_after=retry_after,
        )
    if status >= 500 or status in (0, 408, 409, 425):
        return LLMError(
            "provider_error", detail, retryable=True, transient=True, retry_after=retry_after
        )
    if 300 <= status < 400:
        return bad_response(f"{where} redirects; set the endpoint's base URL to its final address.")
    if status in (401, 403):
        return LLMError("auth_failed", detail)
    return LLMError("bad_request", detail)


def is_context_length(error: Mapping[str, object], text: str) -> bool:
    """Whether an error says that the request is longer than the model's context."""
    if CONTEXT_CODES & {str(error.get("code")), str(error.get("type"))}:
        return True
    low = text.lower()
    return any(phrase in low for phrase in CONTEXT_TEXTS)


def context_limit(error: Mapping[str, object], text: str) -> int | None:
    """The limit in tokens that a context-length error names, if it does."""
    named = error.get("n_ctx")
    if isinstance(named, int):
        return named
    for pattern in CONTEXT_LIMITS:
        if found := pattern.search(text):
            return int(found.group(1))
    return None


def error_object(body: object) -> Mapping[str, object]:
    """The `error` member of a body, or the body itself where servers leave the wrapper out."""
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error", body)
    return inner if isinstance(inner, Mapping) else {"message": inner}


def message_of(error: Mapping[str, object], body: object, key: str) -> str:
    """The endpoint's own words, short and without secrets."""
    words = error.get("message") or error.get("detail") or ""
    if not words and isinstance(body, str) and not body.lstrip().startswith("<"):
        words = body
    return clean(str(words), key)


def clean(text: str, key: str) -> str:
    """Text fit for storing and showing: no key, one line, at most MAX_DETAIL characters."""
    head = text[: 4 * MAX_DETAIL]
    if key:
        head = head.replace(key, "[key]")
    head = SECRET.sub("[key]", head)
    head = head.encode("utf-8", "replace").decode("utf-8").replace("\0", "")
    head = " ".join(head.split())
    return head if len(head) <= MAX_DETAIL else head[: MAX_DETAIL - 1] + "…"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from `retry-after-ms` or `Retry-After` (a number or an HTTP date, RFC 9110)."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d+)?", value):
            return float(value) * scale
        if value and name == "retry-after":
            return seconds_until(value)
    return None


def seconds_until(http_date: str) -> float | None:
    """Seconds from now to an HTTP date; None when the text is not one."""
    try:
        moment = parsedate_to_datetime(http_date)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())
