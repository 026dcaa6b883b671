"""The admin site: what staff review, and what they may change.

Every list is scoped by tenant (`scope`), shows text to those alone who may read it (`content`) and
stays fast over millions of rows (`lists`).
"""

from django.contrib import admin

from chat.admin import (
    audit,
    contexts,
    digests,
    documents,
    endpoints,
    exports,
    feedback,
    follow_ups,
    messages,
    preferences,
    receipts,
    removals,
    review_tags,
    sessions,
    sign_ins,
    snapshots,
    summaries,
    tenants,
    turns,
    usage,
    users,
)

__all__ = [
    "audit",
    "contexts",
    "digests",
    "documents",
    "endpoints",
    "exports",
    "feedback",
    "follow_ups",
    "messages",
    "preferences",
    "receipts",
    "removals",
    "review_tags",
    "sessions",
    "sign_ins",
    "snapshots",
    "summaries",
    "tenants",
    "turns",
    "usage",
    "users",
]

admin.site.site_header = "Chat administration"
admin.site.site_title = "Chat administration"
admin.site.index_title = "Overview"
admin.site.disable_action("delete_selected")
