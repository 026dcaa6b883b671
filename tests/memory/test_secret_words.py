"""What is never remembered of a person, told by its name or its shape."""

from __future__ import annotations

import pytest

from memory.secret_words import holds_secret

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    "text",
    [
        "My password is hunter2",
        "the Passcode: 0000",
        "PIN code 4711",
        "Mein Passwort lautet x",
        "我的密码是 123",
        "银行卡号 6222",
        "私钥在这里",
        "API key: abc",
        "my card is 4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "４１１１１１１１１１１１１１１１",
        "sk-abcdefghijklmnop",
        "ghp_abcdefghijklmnop1234",
        "AKIAIOSFODNN7EXAMPLE",
        "DE89 3704 0044 0532 0130 00",
        "078-05-1120",
        "11010519491231002X",
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_secrets_are_known_by_name_or_shape(text: str) -> None:
    assert holds_secret(text)


@pytest.mark.parametrize(
    "text",
    [
        "Answer in English",
        "以后用中文回答",
        "I prefer tables to lists",
        "The verification phrase is Qingyun-4173",
        "Call me at half past nine",
        "My order is 4111 1111 1111 1112",
        "Room 1234567890123",
        "I like to pin my notes",
        "Kotlin 2.0, not Java 17",
        "",
        "😀" * 100,
        "1" * 100_000,
    ],
)
def test_everything_else_is_no_secret(text: str) -> None:
    assert not holds_secret(text)
