"""Where this server itself is reached, and which addresses an endpoint may have."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import validate_host

from chat.llm.errors import LLMError, connect_failed

DEMO_PATH: Final = "/demo-model/v1"
ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
NAT64: Final = ipaddress.ip_network("64:ff9b::/96")

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_noted: tuple[str, int] | None = None


def note_server_address(host: str, port: int | str | None) -> None:
    """Remember the address that this process serves at; a unix socket (no port) is none."""
    global _noted
    if port is not None:
        _noted = (host, int(port))


def own_base_url() -> str:
    """The demo model of this very server, at the address it serves now."""
    host, port = _noted or (settings.HOST, settings.PORT)
    host = ANY_ADDRESS.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{DEMO_PATH}"


def own_headers() -> dict[str, str]:
    """A Host header that ALLOWED_HOSTS accepts where the address itself would be refused."""
    host = urlsplit(own_base_url()).hostname or ""
    names = [name.lstrip(".") for name in settings.ALLOWED_HOSTS]
    if not names or validate_host(host, settings.ALLOWED_HOSTS):
        return {}
    return {"Host": names[0]}


async def refuse_private(base_url: str) -> None:
    """Raise `endpoint_refused` for an address inside this network, unless settings allow it.

    Every address that the name has now is looked at. The connection resolves the name again, so
    whoever controls the name could still change it in between; a proxy that refuses private
    addresses closes that gap where it matters.
    """
    if getattr(settings, "CHAT_ALLOW_PRIVATE_ENDPOINTS", True):
        return
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    for address in await resolve(host, parts.port or 443):
        if not is_public(address):
            raise LLMError(
                "endpoint_refused",
                f"{host} is a private address ({address}); set CHAT_ALLOW_PRIVATE_ENDPOINTS=true"
                " to allow endpoints inside this network.",
            )


async def resolve(host: str, port: int) -> list[IPAddress]:
    """The addresses of a host name or of an address in any notation."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise connect_failed(f"The host name {host!r} was not found.") from None
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def is_public(address: IPAddress) -> bool:
    """Whether an address, or the IPv4 address that it stands for, is on the public internet."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast
