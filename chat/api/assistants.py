"""The assistants that a person may choose."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chat import access
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.payloads import assistant_payload


class AssistantList(Endpoint):
    @extend_schema(
        operation_id="list_assistants",
        responses={200: schema.Assistants, **schema.problems()},
    )
    def get(self, request: Request) -> Response:
        """The assistants that can be chosen, the default one first."""
        offered = access.assistants_for(self.tenant())
        return Response({"results": [assistant_payload(each) for each in offered]})
