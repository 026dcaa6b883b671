"""The tables of a conversation: who holds it, what was said, what each turn did and sent."""

from chat.models.attachments import Attachment
from chat.models.audit import (
    AuditEvent,
    DeletionReceipt,
    Feedback,
    PendingRemoval,
    SessionTombstone,
)
from chat.models.context import ContextPart, ContextRecord, DerivedText
from chat.models.documents import AssistantDocument
from chat.models.endpoints import Assistant, ModelEndpoint
from chat.models.follow_ups import FollowUp, ModelCall
from chat.models.jobs import ExportJob
from chat.models.reviews import ReviewNote, ReviewScore, ReviewTag
from chat.models.saved_filters import SavedFilter
from chat.models.search import SearchEntry
from chat.models.sessions import ChatMessage, ChatSession, ChatTurn
from chat.models.tenants import Membership, Tenant
from chat.models.usage import CleanupRun, DailyUsage

__all__ = [
    "Assistant",
    "AssistantDocument",
    "Attachment",
    "AuditEvent",
    "ChatMessage",
    "ChatSession",
    "ChatTurn",
    "CleanupRun",
    "ContextPart",
    "ContextRecord",
    "DailyUsage",
    "DeletionReceipt",
    "DerivedText",
    "ExportJob",
    "Feedback",
    "FollowUp",
    "Membership",
    "ModelCall",
    "ModelEndpoint",
    "PendingRemoval",
    "ReviewNote",
    "ReviewScore",
    "ReviewTag",
    "SavedFilter",
    "SearchEntry",
    "SessionTombstone",
    "Tenant",
]
