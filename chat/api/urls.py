"""Addresses of the REST API."""

from django.urls import path, re_path

from chat.api.assistants import AssistantList
from chat.api.attachments import AttachmentDetail, AttachmentFile, AttachmentList
from chat.api.feedback import TurnFeedback
from chat.api.memory import ClearMemory, DigestDetail, ForgetEverything, MemoryOverview
from chat.api.messages import BranchSelect, MessageDetail, MessageList
from chat.api.preferences import PreferenceAnswer, PreferenceDetail, PreferenceList
from chat.api.problems import nothing_here
from chat.api.receipts import ReceiptDetail, ReceiptList
from chat.api.search import Search
from chat.api.sessions import SessionDetail, SessionList
from chat.api.streams import (
    MessageEdit,
    TurnContinue,
    TurnList,
    TurnRegenerate,
    TurnRetry,
    TurnStop,
)
from chat.api.turns import TurnContext, TurnDetail

SESSION = "sessions/<uuid:session_id>/"
MESSAGE = f"{SESSION}messages/<uuid:message_id>/"
TURN = f"{SESSION}turns/<uuid:turn_id>/"

urlpatterns = [
    path("assistants/", AssistantList.as_view()),
    path("sessions/", SessionList.as_view()),
    path(SESSION, SessionDetail.as_view()),
    path(f"{SESSION}messages/", MessageList.as_view()),
    path(MESSAGE, MessageDetail.as_view()),
    path(f"{MESSAGE}edit/", MessageEdit.as_view()),
    path(f"{MESSAGE}select/", BranchSelect.as_view()),
    path(f"{SESSION}clear-memory/", ClearMemory.as_view()),
    path(f"{SESSION}attachments/", AttachmentList.as_view()),
    path(f"{SESSION}turns/", TurnList.as_view()),
    path(TURN, TurnDetail.as_view()),
    path(f"{TURN}context/", TurnContext.as_view()),
    path(f"{TURN}feedback/", TurnFeedback.as_view()),
    path(f"{TURN}stop/", TurnStop.as_view()),
    path(f"{TURN}retry/", TurnRetry.as_view()),
    path(f"{TURN}regenerate/", TurnRegenerate.as_view()),
    path(f"{TURN}continue/", TurnContinue.as_view()),
    path("attachments/<uuid:attachment_id>/", AttachmentDetail.as_view()),
    path("attachments/<uuid:attachment_id>/file/", AttachmentFile.as_view()),
    path("preferences/", PreferenceList.as_view()),
    path("preferences/<int:preference_id>/", PreferenceDetail.as_view()),
    path("preferences/<int:preference_id>/answer/", PreferenceAnswer.as_view()),
    path("memory/", MemoryOverview.as_view()),
    path("memory/digest/", DigestDetail.as_view()),
    path("memory/forget-everything/", ForgetEverything.as_view()),
    path("receipts/", ReceiptList.as_view()),
    path("receipts/<uuid:receipt_id>/", ReceiptDetail.as_view()),
    path("search/", Search.as_view()),
    re_path("", nothing_here),
]
