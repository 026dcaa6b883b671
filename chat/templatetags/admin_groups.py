"""The admin's list of lists, in the order in which staff work rather than by application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import template

register = template.Library()

GROUPS: Mapping[str, Sequence[str]] = {
    "Conversations": (
        "ChatSession",
        "ChatTurn",
        "ChatMessage",
        "ContextRecord",
        "ContextPart",
        "Feedback",
        "ReviewTag",
    ),
    "Memory": ("UserPreference", "ConversationSummary", "UserDigest", "MemorySnapshot"),
    "Models": ("Assistant", "AssistantDocument", "ModelEndpoint"),
    "People": ("User", "Tenant", "Membership", "Group"),
    "Usage": ("DailyUsage", "ModelCall", "FollowUp", "CleanupRun"),
    "Trail": (
        "AuditEvent",
        "ExportJob",
        "DeletionReceipt",
        "SessionTombstone",
        "PendingRemoval",
    ),
}
OTHERS = "Sign-ins and others"


@register.filter
def in_groups(app_list: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Groups of what the reader may see; a list that no group names stands in the last one."""
    seen = {model["object_name"]: model for app in app_list for model in app["models"]}
    groups = [
        {"name": name, "models": [seen.pop(each) for each in names if each in seen]}
        for name, names in GROUPS.items()
    ]
    groups.append({"name": OTHERS, "models": list(seen.values())})
    return [group for group in groups if group["models"]]
