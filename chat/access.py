"""The one door from a user to what they may touch.

Everything that has an owner is reached through these functions. A foreign id and an unknown id
end in the same `NotFound` after the same number of queries.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from chat.models import Assistant, Attachment, ChatMessage, ChatSession, ChatTurn, Tenant
from chat.models.tenants import DEFAULT_TENANT_SLUG

User = Any  # the project's user model; AbstractBaseUser lacks the permission methods
TENANT_KEY = "tenant"  # in the Django session of a user of several tenants


class NotFound(Exception):
    """There is no such thing, or it is somebody else's: the asker cannot tell which."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"There is no such {kind}.")
        self.kind = kind


def tenant_of(user: User, django_session: Mapping[str, Any] | SessionBase | None = None) -> Tenant:
    """The tenant that `user` works in: the one chosen, else the first, else the default one."""
    if isinstance(user, AnonymousUser) or not user.is_active:
        raise NotFound("tenant")
    tenants = list(Tenant.objects.filter(memberships__user=user, is_active=True).order_by("slug"))
    if not tenants and not user.memberships.exists():
        tenants = list(Tenant.objects.filter(slug=DEFAULT_TENANT_SLUG, is_active=True))
    if not tenants:
        raise NotFound("tenant")
    chosen = django_session.get(TENANT_KEY) if django_session is not None else None
    return next((tenant for tenant in tenants if tenant.slug == chosen), tenants[0])


def chat_sessions_of(user: User, tenant: Tenant) -> QuerySet[ChatSession]:
    """The sessions that `user` holds in `tenant`."""
    return ChatSession.objects.filter(user=user, tenant=tenant)


def chat_session_for(
    user: User,
    session_id: uuid.UUID | str,
    django_session: Mapping[str, Any] | SessionBase | None = None,
) -> ChatSession:
    """The session with its assistant and endpoint, if `user` holds it; else `NotFound`."""
    tenant = tenant_of(user, django_session)
    sessions = chat_sessions_of(user, tenant).select_related("assistant__endpoint", "tenant")
    found = sessions.filter(pk=as_uuid(session_id, "session")).first()
    if found is None:
        raise NotFound("session")
    return found


def turn_for(chat_session: ChatSession, turn_id: uuid.UUID | str) -> ChatTurn:
    """A turn of a session that was reached through this module."""
    found = chat_session.turns.filter(pk=as_uuid(turn_id, "turn")).select_related("input").first()
    if found is None:
        raise NotFound("turn")
    return found


def own_message(chat_session: ChatSession, message_id: uuid.UUID | str) -> ChatMessage:
    """What a person said in a session that was reached through this module, on any branch."""
    said = chat_session.messages.filter(role=ChatMessage.Role.USER)
    found = said.filter(pk=as_uuid(message_id, "message")).first()
    if found is None:
        raise NotFound("message")
    return found


def attachment_for(
    user: User,
    attachment_id: uuid.UUID | str,
    django_session: Mapping[str, Any] | SessionBase | None = None,
) -> Attachment:
    """An image in a session that `user` holds; else `NotFound`."""
    sessions = chat_sessions_of(user, tenant_of(user, django_session))
    found = Attachment.objects.filter(
        pk=as_uuid(attachment_id, "attachment"), chat_session__in=sessions
    ).first()
    if found is None:
        raise NotFound("attachment")
    return found


def path_messages(chat_session: ChatSession) -> QuerySet[ChatMessage]:
    """The messages of the chosen branch."""
    return chat_session.messages.filter(is_on_path=True)


def assistants_for(tenant: Tenant) -> QuerySet[Assistant]:
    """The assistants that people in `tenant` may choose, the default one first."""
    offered = Assistant.objects.filter(Q(tenant=None) | Q(tenant=tenant))
    return (
        offered.filter(is_active=True, endpoint__is_active=True)
        .select_related("endpoint")
        .order_by("-is_default", "name")
    )


def assistant_for(tenant: Tenant, slug: str | None) -> Assistant:
    """The assistant named `slug`, or the default one; else `NotFound`."""
    offered = assistants_for(tenant)
    found = offered.first() if slug is None else offered.filter(slug=slug).first()
    if found is None:
        raise NotFound("assistant")
    return found


def is_still_allowed(user_id: int, session_key: str | None, session_id: uuid.UUID) -> str:
    """ "ok", "signed_out" or "not_found" for a socket that was let in earlier."""
    from django.contrib.auth import get_user_model
    from django.contrib.sessions.models import Session
    from django.utils import timezone

    user = get_user_model().objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        return "signed_out"
    django_session: Mapping[str, Any] | None = None
    if session_key is not None:
        row = Session.objects.filter(pk=session_key, expire_date__gt=timezone.now()).first()
        if row is None:
            return "signed_out"
        django_session = row.get_decoded()
    try:
        chat_session_for(user, session_id, django_session)
    except NotFound:
        return "not_found"
    return "ok"


def staff_tenants(user: User) -> QuerySet[Tenant]:
    """The tenants whose conversations a member of staff sees: all for superusers."""
    if user.is_superuser:
        return Tenant.objects.all()
    return Tenant.objects.filter(memberships__user=user)


def staff_chat_sessions(user: User) -> QuerySet[ChatSession]:
    """The sessions that a member of staff may review."""
    if user.is_superuser:
        return ChatSession.objects.all()
    return ChatSession.objects.filter(tenant__in=staff_tenants(user))


def may_read_content(user: User) -> bool:
    """Reading what people wrote is a permission of its own, and can be closed to everybody."""
    return settings.CHAT_STAFF_CONTENT and is_allowed(user, "chat.read_message_content")


def may_view_context(user: User) -> bool:
    """Seeing what requests were made of; their text needs `may_read_content` as well."""
    return settings.CHAT_STAFF_CONTENT and is_allowed(user, "chat.view_context")


def may_export_metadata(user: User) -> bool:
    """Exporting everything but text."""
    return is_allowed(user, "chat.export_metadata")


def may_export_text(user: User) -> bool:
    """Exporting text: who may not read it may not export it either."""
    return may_read_content(user) and is_allowed(user, "chat.export_text")


def is_allowed(user: User, permission: str) -> bool:
    """Whether `user` is staff and holds `permission`, such as "chat.redact"."""
    return bool(user.is_active and user.is_staff and user.has_perm(permission))


def address_of(request: HttpRequest) -> str | None:
    """The address of the other end; None when it is not one, as behind a local socket."""
    try:
        return str(ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")))
    except ValueError:
        return None


def as_uuid(value: uuid.UUID | str, kind: str) -> uuid.UUID:
    """An id from outside; what is not one is simply not found."""
    try:
        return value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))
    except ValueError:
        raise NotFound(kind) from None
