"""Websocket addresses."""

from django.urls import path, re_path

from chat.consumers import ChatConsumer, NothingHere

websocket_urlpatterns = [
    path("ws/chat/<uuid:session_id>/", ChatConsumer.as_asgi()),
    re_path("", NothingHere.as_asgi()),
]
