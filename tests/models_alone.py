"""The product's settings with the models and none of the faces: no admin, no API, no model client.

For processes of tests that read and write rows: they start in a fifth of the time.
"""

from __future__ import annotations

from chatproject.settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "memory.apps.MemoryConfig",
    "chat.apps.ChatConfig",
]
