"""Deleting rows that may have thousands of others behind them: counted, never listed.

The admin's own confirmation page collects every object that would go; a tenant's or a person's
conversations would fill it. Here it shows numbers, and refuses while conversations exist.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from chat.admin import audit
from chat.admin.base import change_url
from chat.admin.lists import COUNTED, counted


class CountedDeletion(audit.RecordedWrites):
    """`refusal` says why not, or nothing; `goes_along` counts what would leave with the row."""

    def refusal(self, obj: Any) -> str:
        return ""

    def goes_along(self, obj: Any) -> list[tuple[str, QuerySet[Any]]]:
        return []

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        obj = self.get_object(request, unquote(object_id))
        if not self.has_delete_permission(request, obj):
            raise PermissionDenied
        if obj is None:
            return self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
                request, self.opts, object_id
            )
        if refusal := self.refusal(obj):
            self.message_user(request, refusal, messages.ERROR)
            model = f"{self.opts.app_label}_{self.opts.model_name}"
            return HttpResponseRedirect(change_url(model, obj.pk))
        if request.method == "POST" and request.POST.get("post") == "yes":
            return self.carry_out(request, obj)
        return self.ask(request, obj)

    def ask(self, request: HttpRequest, obj: Any) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "object": obj,
            "title": f"Delete {self.opts.verbose_name} {obj}",
            "counts": [(label, _text(counted(rows))) for label, rows in self.goes_along(obj)],
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/delete_counted.html", context)

    def carry_out(self, request: HttpRequest, obj: Any) -> HttpResponse:
        name, pk = str(obj), obj.pk
        self.log_deletions(request, self.model._default_manager.filter(pk=pk))
        self.delete_model(request, obj)
        return self.response_delete(request, name, pk)


def _text(number: int) -> str:
    return f"more than {COUNTED:,}" if number > COUNTED else f"{number:,}"
