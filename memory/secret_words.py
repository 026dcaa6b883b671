"""Telling what is never to be remembered of a person: passwords, keys, card and account numbers."""

from __future__ import annotations

import re
import unicodedata

_NAMED = re.compile(
    r"pass\s?(?:word|code|phrase)\w*|\bpwd\b|\bpin(?= ?(?:is\b|code|number|:|\d))|\bcv[vc]2?\b"
    r"|\b(?:api|access|secret|private|license)[ _-]?keys?\b|\b(?:access|auth|bearer)[ _-]?tokens?\b"
    r"|\b(?:secret|recovery|backup|one-time|verification) codes?\b|\bseed phrase\b"
    r"|\b(?:credit|debit|bank) card\b|\b(?:card|account) number\b|\bsocial security\b|\bssn\b"
    r"|passwor[dt]|passwort|contrase[ñn]a|mot de passe|пароль"
    r"|密码|口令|验证码|银行卡|信用卡|卡号|身份证|账号|帐号|私钥|密钥|暗証番号|パスワード|비밀번호",
    re.I,
)
_SHAPED = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[abpr]|hf|npm)[-_][A-Za-z0-9_-]{12,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\."
    r"|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b"  # an IBAN
    r"|\b\d{3}-\d{2}-\d{4}\b"  # a social security number
    r"|\b\d{17}[\dXx]\b"  # a Chinese identity number
)
_DIGITS = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")


def holds_secret(text: str) -> bool:
    """Whether `text` names a secret, or holds something that is shaped like one."""
    plain = unicodedata.normalize("NFKC", text)
    if _NAMED.search(plain) or _SHAPED.search(plain):
        return True
    return any(_is_card_number(found.group()) for found in _DIGITS.finditer(plain))


def _is_card_number(text: str) -> bool:
    """By the check digit that card numbers end in (Luhn)."""
    digits = [int(each) for each in text if each.isdigit()]
    doubled = [sum(divmod(2 * each, 10)) for each in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
