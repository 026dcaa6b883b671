"""The tables of a conversation: who holds it, what was said, what each turn did and sent."""

from chat.models.attachments import Attachment
from chat.models.audit import AuditEvent, Feedback, PendingRemoval, SessionTombstone
from chat.models.context import ContextPart, ContextRecord
from chat.models.documents import AssistantDocument
from chat.models.endpoints import Assistant, ModelEndpoint
from chat.models.sessions import ChatMessage, ChatSession, ChatTurn
from chat.models.tenants import Membership, Tenant

__all__ = [
    "Assistant",
    "AssistantDocument",
    "Attachment",
    "AuditEvent",
    "ChatMessage",
    "ChatSession",
    "ChatTurn",
    "ContextPart",
    "ContextRecord",
    "Feedback",
    "Membership",
    "ModelEndpoint",
    "PendingRemoval",
    "SessionTombstone",
    "Tenant",
]
