"""Addresses of the demo model, below `/demo-model/`."""

from django.urls import path

from chat.demo_model import views

urlpatterns = [
    path("v1/chat/completions", views.chat_completions, name="demo-model-chat"),
    path("v1/models", views.models, name="demo-model-models"),
    path("v1/requests", views.requests, name="demo-model-requests"),
]
