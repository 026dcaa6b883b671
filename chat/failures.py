"""Why a turn failed, for the person who chats: by its code, in words that name no machine.

What an endpoint said is stored with the turn (`error_detail`) and is for staff: it can name the
endpoint's address, the account that pays, or the variable that a key is in.
"""

from __future__ import annotations

NOT_SET_UP = "The model is not set up properly here; whoever runs this site has to see to it."

SAID_OF_ENDPOINTS = {  # the codes of `llm.LLMError`
    "auth_failed": NOT_SET_UP,
    "bad_request": "The model refused this request.",
    "bad_response": "What the model sent is not an answer.",
    "connect_failed": "The model cannot be reached at the moment.",
    "context_length": "The conversation is too long for the model; shorten the message, or begin a"
    " new conversation.",
    "endpoint_refused": NOT_SET_UP,
    "missing_key": NOT_SET_UP,
    "provider_error": "The model failed, or broke off in the middle of its answer.",
    "rate_limited": "The model takes no more requests for the moment.",
    "timeout": "The model took too long.",
}

NOT_RETRYABLE = {
    "auth_failed",
    "attachment_gone",
    "bad_request",
    "context_length",
    "endpoint_refused",
    "input_too_long",
    "missing_key",
    "prompt_too_long",
}


def said(code: str, detail: str) -> str:
    """The sentence for a code; `detail` where the failure is this server's own."""
    return SAID_OF_ENDPOINTS.get(code, detail)
