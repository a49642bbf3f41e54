"""Access control of the page: hosts, origins and tokens.

A page of another site can make a browser ask this server for things; and its name can be made to
resolve to this machine (DNS rebinding). So a request must name a host that is ours, and one that
opens a WebSocket must come from a page of ours.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))
# Nothing but what this server serves is loaded, and no script within the page itself.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "autotune",
}


def is_local(address: str) -> bool:
    """Return whether only this machine reaches an address."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    """Return a secret of 256 bits, in letters that a link can hold."""
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class Guard:
    """Decides about requests.

    Attributes:
        address: on which the server listens.
        token: what a reader must know; None where everybody on this machine may read.
        names: further names under which this server is known, such as that of a proxy.
    """

    address: str = "127.0.0.1"
    token: str | None = None
    names: frozenset[str] = field(default_factory=frozenset)

    def knows_host(self, host: str) -> bool:
        """Return whether a request's Host is this server; the port may be that of a tunnel."""
        name = _name(host)
        if name is None:
            return False
        if name in _LOCAL or name in self.names or name == self.address:
            return True
        if is_local(self.address):
            return False
        # No name resolves to a numeric address: it is what the reader typed.
        return _is_number(name) or name == socket.gethostname().lower()

    def knows_origin(self, origin: str | None, host: str) -> bool:
        """Return whether the page that opens a WebSocket is one that this server gave."""
        if not origin or not self.knows_host(host):
            return False
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()

    def admits(self, token: str | None) -> bool:
        """Return whether a reader knows the token; takes as long for a nearly right one."""
        if self.token is None:
            return True
        return hmac.compare_digest((token or "").encode("utf-8", "replace"), self.token.encode())


def _name(host: str) -> str | None:
    """Return the name in a Host header, without its port; None if the header is malformed."""
    if not host or len(host) > 300 or any(sign in host for sign in "@/\\?# "):
        return None
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return None
    return name.rstrip(".") if name else None


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
