"""JSON text: read without surprises, written as Jackson does, which LangChain4j writes with."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

DEEPEST = 200  # levels of lists and objects

_TO_ESCAPE = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LONGEST_INTEGER = 4_000  # digits


class FormatError(ValueError):
    """The text is no JSON, or nested too deeply."""


def parse(text: str) -> Any:
    """The value of JSON text. Numbers that no float or int can hold become their digits as text."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, not {type(text).__name__}")
    try:
        value = json.loads(
            text.removeprefix("\ufeff"),
            strict=False,  # a bare line break in a text breaks nothing
            parse_float=_float,
            parse_int=_int,
            parse_constant=str,
        )
    except json.JSONDecodeError as error:
        raise FormatError(
            f"this is no JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError:
        raise FormatError(_too_deep()) from None
    return value


def write(value: Any) -> str:
    """JSON text without blanks: non-ASCII as it is, control characters and lone surrogates
    escaped in capitals, numbers as Java writes them."""
    return "".join(_written(value, 0))


def _written(value: Any, depth: int) -> list[str]:
    if depth > DEEPEST:
        raise FormatError(_too_deep())
    if isinstance(value, dict):
        pieces: list[str] = ["{"]
        for key, each in value.items():
            pieces += [_string(str(key)), ":", *_written(each, depth + 1), ","]
        return _closed(pieces, "}")
    if isinstance(value, list | tuple):
        pieces = ["["]
        for each in value:
            pieces += [*_written(each, depth + 1), ","]
        return _closed(pieces, "]")
    return [_scalar(value)]


def _closed(pieces: list[str], end: str) -> list[str]:
    if len(pieces) > 1:
        pieces.pop()  # the last comma
    pieces.append(end)
    return pieces


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _java_double(value)
    return _string(str(value))


def _string(text: str) -> str:
    return f'"{_TO_ESCAPE.sub(_escaped, text)}"'


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    return _SHORT.get(character) or f"\\u{ord(character):04X}"


def _java_double(value: float) -> str:
    """As Double.toString: plain from 0.001 to below 10,000,000, else with an exponent."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" * (value < 0)}Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{Decimal(repr(value)):f}"
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, rest = str(digits[0]), "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{first}.{rest}E{int(exponent) + len(digits) - 1}"


def _float(digits: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else digits


def _int(digits: str) -> int | str:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else digits


def _too_deep() -> str:
    return f"this JSON is nested deeper than {DEEPEST} levels"
