"""Receipts of what the asker, staff or a rule deleted of theirs."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chat import access
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.paging import PageQuery, ReceiptPages
from chat.api.payloads import receipt_payload
from chat.models import DeletionReceipt, Tenant


def receipts_of(person: Any, tenant: Tenant) -> QuerySet[DeletionReceipt]:
    """The person's, of this tenant and of none; each with what is still open."""
    mine = DeletionReceipt.objects.filter(Q(tenant=tenant) | Q(tenant=None), owner=person)
    return mine.prefetch_related("pending_removals")


class ReceiptList(Endpoint):
    @extend_schema(
        operation_id="list_receipts",
        parameters=[PageQuery],
        responses={200: schema.Receipts, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """The asker's receipts, the newest first."""
        pages = ReceiptPages()
        mine = receipts_of(self.person, self.tenant())
        rows = pages.paginate_queryset(mine, request, view=self) or []
        return pages.get_paginated_response([receipt_payload(row) for row in rows])


class ReceiptDetail(Endpoint):
    @extend_schema(
        operation_id="read_receipt", responses={200: schema.Receipt, **schema.problems(404)}
    )
    def get(self, request: Request, receipt_id: uuid.UUID) -> Response:
        """One receipt, and whether everything is gone by now."""
        found = receipts_of(self.person, self.tenant()).filter(pk=receipt_id).first()
        if found is None:
            raise access.NotFound("receipt")
        return Response(receipt_payload(found))
