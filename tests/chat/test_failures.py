"""What a person is told of a failed turn."""

from __future__ import annotations

import re

from chat import failures
from chat.llm import LLMError


def test_every_code_of_the_model_client_has_a_sentence_of_its_own() -> None:
    listed = re.search(r"codes: ([^.]+)\.", LLMError.__doc__ or "")
    assert listed is not None
    codes = {code.strip() for code in listed.group(1).split(",")}
    assert codes == set(failures.SAID_OF_ENDPOINTS)


def test_what_an_endpoint_says_is_not_repeated_and_what_this_server_says_is() -> None:
    said = failures.said("auth_failed", "llm.internal:8443 refused the key from SECRET_NAME.")
    assert said == failures.NOT_SET_UP
    assert failures.said("internal_error", "Its log says why.") == "Its log says why."
