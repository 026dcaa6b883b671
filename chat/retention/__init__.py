"""What leaves: sessions, messages, preferences, people; cleared memory, idle sessions, dead turns.

Commands, admin actions, tools and the API call these functions; nothing else deletes. `forget_*`
give a receipt.
"""

from chat.retention.deletion import forget_session
from chat.retention.forgetting import (
    Cleared,
    UnknownPreferences,
    clear_memory,
    forget_digest,
    forget_memory,
    preferences_from,
)
from chat.retention.idle_sessions import CleanupReport, TenantCleanup, cleanup
from chat.retention.pairs import NoSuchMessage, forget_pair
from chat.retention.people import forget_user
from chat.retention.places import Removed
from chat.retention.preferences import answer_preference, forget_preference
from chat.retention.reaping import reap_turns
from chat.retention.redaction import ALL, redact
from chat.retention.uploads import remove_forgotten, remove_unsent

__all__ = [
    "ALL",
    "CleanupReport",
    "Cleared",
    "NoSuchMessage",
    "Removed",
    "TenantCleanup",
    "UnknownPreferences",
    "answer_preference",
    "cleanup",
    "clear_memory",
    "forget_digest",
    "forget_memory",
    "forget_pair",
    "forget_preference",
    "forget_session",
    "forget_user",
    "preferences_from",
    "reap_turns",
    "redact",
    "remove_forgotten",
    "remove_unsent",
]
