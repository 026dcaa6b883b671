"""`current_time`: a model does not know what day it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone

from chat.turns.tools import Caller, Result, Tool, ToolFailed


async def current_time(caller: Caller, arguments: Mapping[str, Any]) -> Result:
    zone = arguments.get("timezone") or str(timezone.get_default_timezone())
    try:
        now = timezone.now().astimezone(ZoneInfo(zone))
    except (ValueError, OSError, LookupError):
        raise ToolFailed(
            f"{zone!r} is no time zone; use an IANA name such as Asia/Shanghai."
        ) from None
    return Result(f"{now:%A}, {now.isoformat(timespec='seconds')} ({zone})")


CURRENT_TIME = Tool(
    name="current_time",
    description="The current date and time.",
    parameters={
        "type": "object",
        "properties": {
            "timezone": {
                "type": "string",
                "maxLength": 60,
                "description": "IANA name, such as Europe/Berlin; the server's own when empty.",
            }
        },
        "additionalProperties": False,
    },
    run=current_time,
)
