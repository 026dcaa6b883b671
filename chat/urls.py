"""Addresses of the pages."""

from django.contrib.auth import views as auth_views
from django.urls import path

from chat import views

urlpatterns = [
    path("", views.newest_chat, name="newest-chat"),
    path("chat/<uuid:session_id>/", views.chat, name="chat"),
    path(
        "accounts/login/",
        auth_views.LoginView.as_view(redirect_authenticated_user=True),
        name="login",
    ),
    path("accounts/logout/", auth_views.LogoutView.as_view(), name="logout"),
]
