"""The server process: `python -m chatproject.serve`, the command line that `make run` ends in."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

import django
import uvicorn
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from chatproject.setup_env import Problem, bind

# A frame over CHAT_MAX_FRAME_BYTES is refused by the consumer with 4413, which the page can
# explain; uvicorn's own limit lies above it and stops what would only fill the memory.
FRAME_HEADROOM = 4
# Uvicorn waits for open connections before the lifespan handler gets its turn to drain.
SHUTDOWN_MARGIN_SECONDS = 5


def uvicorn_config() -> uvicorn.Config:
    """The measured choice: uvloop, sans-I/O websockets, no per-message deflate."""
    return uvicorn.Config(
        "chatproject.asgi:application",
        host=settings.HOST,
        port=settings.PORT,
        loop="uvloop",
        http="httptools",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_max_size=settings.CHAT_MAX_FRAME_BYTES * FRAME_HEADROOM,
        lifespan="on",
        log_level="info",
        server_header=False,
        timeout_graceful_shutdown=settings.CHAT_DRAIN_SECONDS + SHUTDOWN_MARGIN_SECONDS,
    )


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatproject.settings")
    django.setup()
    try:
        call_command("check")
        listener = bind(settings.HOST, settings.PORT)
    except (SystemCheckError, Problem) as problem:
        print(f"error: {problem}", file=sys.stderr)  # noqa: T201
        return 1
    if settings.WHITENOISE_USE_FINDERS:
        # Files come from where they lie; that none were collected is no news.
        warnings.filterwarnings("ignore", message="No directory at")
    address = f"[{settings.HOST}]" if ":" in settings.HOST else settings.HOST
    print(f"Serving http://{address}:{settings.PORT}/  (Ctrl-C stops it)", flush=True)  # noqa: T201
    server = uvicorn.Server(uvicorn_config())
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C, raised again once all has drained
        server.run(sockets=[listener])
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(main())
