"""The product's settings as tests see them: nothing of `.env`, nothing of this machine.

`DATABASE_URL` and `REDIS_URL` alone come from outside, so that one suite runs on several engines.
Without them: a SQLite file (write-ahead log and IMMEDIATE as in production, so never `:memory:`).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.environment import TEST_ENVIRONMENT, clear_settings

_scratch = tempfile.TemporaryDirectory(prefix="chat-tests-")  # removed when the process ends
SCRATCH = Path(_scratch.name)

clear_settings(os.environ, keep={"DATABASE_URL", "REDIS_URL"})
os.environ.update(TEST_ENVIRONMENT)
os.environ["CHAT_MEDIA_ROOT"] = str(SCRATCH / "media")
os.environ.setdefault("DATABASE_URL", f"sqlite:///{SCRATCH / 'db.sqlite3'}")

from chatproject.settings import *  # noqa: E402, F403
from chatproject.settings import CACHES, CHANNEL_LAYERS, DATABASES, REDIS_URL  # noqa: E402

# These tests end processes and never the machine: nothing needs to have reached the disk.
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["TEST"] = {"NAME": str(SCRATCH / "test.sqlite3")}
    DATABASES["default"]["OPTIONS"]["init_command"] += " PRAGMA synchronous=OFF;"
elif DATABASES["default"]["ENGINE"].endswith("postgresql"):
    DATABASES["default"]["OPTIONS"]["options"] = "-c synchronous_commit=off"

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# Every client of a test would look at every static file; that they are served is tried in the
# browser, on the product's own settings.
WHITENOISE_USE_FINDERS = False
STATIC_ROOT = SCRATCH / "static"

# What this run keeps in Redis carries the run's own name: nothing else there is read or deleted.
TEST_KEY_PREFIX = f"chat-tests-{os.getpid()}"
CACHES["default"]["KEY_PREFIX"] = TEST_KEY_PREFIX
if REDIS_URL:
    CHANNEL_LAYERS["default"]["CONFIG"]["prefix"] = TEST_KEY_PREFIX
