"""The ASGI application: HTTP, websockets, and a lifespan that opens and drains `chat.running`."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatproject.settings")
django_application = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402  after django.setup()
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from chat import llm, running  # noqa: E402
from chatproject.routing import websocket_urlpatterns  # noqa: E402

llm.load()


async def lifespan(scope: Any, receive: Any, send: Any) -> None:
    """Start the process's liveness lock and relay; at shutdown end or hand over running turns."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                await running.startup()
            except running.CannotStart as problem:
                await send({"type": "lifespan.startup.failed", "message": str(problem)})
                return
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await running.shutdown()
            await send({"type": "lifespan.shutdown.complete"})
            return


router = ProtocolTypeRouter(
    {
        "http": django_application,
        "websocket": AuthMiddlewareStack(URLRouter(websocket_urlpatterns)),
        "lifespan": lifespan,
    }
)


async def application(scope: Any, receive: Any, send: Any) -> None:
    if server := scope.get("server"):
        llm.note_server_address(server[0], server[1])
    await router(scope, receive, send)
