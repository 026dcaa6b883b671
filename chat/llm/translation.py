"""What the openai package raises, in our own words."""

from __future__ import annotations

import re

import openai

from chat.llm.errors import (
    LLMError,
    UsageRefused,
    bad_response,
    broke_off,
    classify,
    connect_failed,
    error_object,
    from_error_object,
    message_of,
    retry_after,
)


def translate(
    error: Exception, *, host: str, key_name: str, key: str, opening: bool
) -> LLMError | None:
    """Our error for what the SDK raised; `opening`: before the response's headers came."""
    if isinstance(error, LLMError):
        return error
    if isinstance(error, openai.APIStatusError):
        return from_status(error, host=host, key_name=key_name, key=key)
    if isinstance(error, openai.APIConnectionError):
        return connect_failed(f"No connection to {host}.") if opening else broke_off(host)
    if isinstance(error, openai.APIError):
        return from_error_object(error.body, host=host, key=key)
    if isinstance(error, UnicodeEncodeError):
        return LLMError("bad_request", "The request holds half a character (a lone surrogate).")
    if isinstance(error, ValueError):
        return bad_response(f"{host} sent something that is not JSON in UTF-8.")
    return None


def from_status(error: openai.APIStatusError, *, host: str, key_name: str, key: str) -> LLMError:
    """An HTTP status that is not a success."""
    status = error.status_code
    body = error_object(error.body)
    where = f"{host} (HTTP {status})"
    if status in (401, 403):
        refused = f"the key from {key_name}" if key_name else "a request without a key"
        return LLMError("auth_failed", f"{where} refused {refused}.")
    text = message_of(body, error.body, key)
    if status in (400, 422) and re.search("stream_options|include_usage", str(error.body)):
        return UsageRefused("bad_request", f"{where}: {text}")
    wait = retry_after(error.response.headers)
    return classify(status, body, where=where, text=text, retry_after=wait)
