"""Reading requests: bodies of bounded JSON, known fields only, clean text; and queries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn, Self

from django.conf import settings
from django.utils import timezone
from drf_spectacular.extensions import OpenApiSerializerExtension
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from chat.api.problems import FieldError, Invalid, TooLarge, shown
from memory.text import clean, without_direction_marks

MAX_INTEGER = 2**31 - 1


class JsonParser(BaseParser):
    """JSON of at most CHAT_MAX_FRAME_BYTES, as on the websocket."""

    media_type = "application/json"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        limit = settings.CHAT_MAX_FRAME_BYTES
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise TooLarge(f"The body is longer than {limit} bytes; send less at once.")
        try:
            return json.loads(body.decode("utf-8-sig"), parse_constant=refuse_constant)
        except RecursionError:
            raise ParseError("The body is nested too deeply.") from None
        except ValueError as error:
            raise ParseError(f"The body is not JSON: {error}") from None


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


class CleanText(serializers.CharField):
    """Text without NUL and lone surrogates; the serializer notes whether anything was taken out."""

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if isinstance(data, str):
            text = clean(data)
            if text != data and isinstance(self.parent, Body):
                self.parent.cleaned.append(self.field_name or "")
            data = text
        return super().run_validation(data)


class OneLine(CleanText):
    """Clean text on one line, without marks that turn the direction of the text around it."""

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if isinstance(data, str):
            text = without_direction_marks(data)
            if text != data and isinstance(self.parent, Body):
                self.parent.cleaned.append(self.field_name or "")
            data = " ".join(text.split())
        return super().run_validation(data)


class Moment(serializers.DateTimeField):
    """A time with its zone; without one nobody knows when it is."""

    default_error_messages = {
        "no_zone": "Give a time zone, such as Z or +02:00.",
        "beyond": "There is no such day in UTC.",
    }

    def enforce_timezone(self, value: datetime) -> datetime:
        if timezone.is_naive(value):
            self.fail("no_zone")
        try:
            return value.astimezone(UTC)
        except OverflowError:
            self.fail("beyond")


class Body(serializers.Serializer[Any]):
    """The fields of a request body; `Invalid` names everything that is wrong with it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cleaned: list[str] = []

    @classmethod
    def read(cls, request: Request, **kwargs: Any) -> Self:
        """The body of a request, checked: its values are in `validated_data`."""
        data = request.data
        if not isinstance(data, Mapping):
            raise Invalid([FieldError("body", shown(data), "Send a JSON object.")])
        body = cls(data=data, **kwargs)
        errors = [*body.unknown_fields(data)]
        if not body.is_valid():
            errors += body.field_errors(data)
        if errors:
            raise Invalid(errors)
        return body

    def unknown_fields(self, data: Mapping[str, Any]) -> Iterator[FieldError]:
        known = ", ".join(self.fields)
        for name in data:
            if name not in self.fields:
                message = f"There is no such field; there are: {known}."
                yield FieldError(shown(name) or "", shown(data[name]), message, "unknown_field")

    def field_errors(self, data: Mapping[str, Any]) -> Iterator[FieldError]:
        for name, details in self.errors.items():
            for detail in flat(details):
                yield FieldError(name, shown(data.get(name)), str(detail), detail.code)


class BodySchema(OpenApiSerializerExtension):
    """Says in the description what `Body` does: no other fields, and no blank text."""

    target_class = Body
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        described: dict[str, Any] = auto_schema._map_serializer(
            self.target, direction, bypass_extensions=True
        )
        for name, field in self.target.fields.items():
            if isinstance(field, serializers.CharField) and not field.allow_blank:
                described["properties"][name]["minLength"] = 1
        return {**described, "additionalProperties": False}


class Query(serializers.Serializer[Any]):
    """The parameters behind the question mark; others than these are ignored."""

    @classmethod
    def read(cls, request: Request) -> dict[str, Any]:
        """The values, checked; `Invalid` names everything that is wrong with them."""
        query = cls(data=request.query_params)
        if not query.is_valid():
            raise Invalid(
                FieldError(name, shown(request.query_params.get(name)), str(detail), detail.code)
                for name, details in query.errors.items()
                for detail in details
            )
        values: dict[str, Any] = query.validated_data
        return values


def flat(details: Any) -> Iterator[Any]:
    """DRF's error details, which nest for lists and dicts."""
    if isinstance(details, dict):
        details = list(details.values())
    if isinstance(details, list):
        for each in details:
            yield from flat(each)
    else:
        yield details


def with_cleaned(payload: dict[str, Any], body: Body) -> dict[str, Any]:
    """The answer to a write: `cleaned` names the fields whose text lost something on the way."""
    return {**payload, "cleaned": body.cleaned} if body.cleaned else payload
