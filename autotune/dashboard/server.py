"""The web server of the page: the one place that imports tornado."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from autotune.dashboard.export import FORMATS, pieces
from autotune.dashboard.guard import HEADERS, Guard
from autotune.dashboard.hub import MOST_READERS, PATIENCE_S, Hub, Viewer
from autotune.dashboard.model import Model
from autotune.dashboard.page import assets
from autotune.dashboard.view import View
from autotune.errors import AutotuneError, RecordError

logger = logging.getLogger("autotune")

DEFAULT_PORT = 8765
# Bytes of a reason that a socket may be closed with.
_LONGEST_REASON = 120
# Bytes of a request, of a message to us; connections, and seconds that an idle one is kept.
_HEADER, _MESSAGE, _MOST, _IDLE_S = 16 << 10, 64 << 10, 256, 20
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
# Exports at a time: each keeps the places of all its trials.
_MOST_EXPORTS = 8


class Guarded(RequestHandler):
    """The base of all handlers: headers, and access control."""

    def _stream(self) -> Any:
        return getattr(self.request.connection, "stream", None)

    @property
    def guard(self) -> Guard:
        """The access control."""
        return self.settings["guard"]  # type: ignore[no-any-return]

    @property
    def hub(self) -> Hub:
        """The source of messages."""
        return self.settings["hub"]  # type: ignore[no-any-return]

    @property
    def cookie(self) -> str:
        """The name under which a browser keeps the token; cookies know no ports."""
        return f"autotune-{self.settings['port']}"

    def set_default_headers(self) -> None:
        """Send the headers that keep others out, with errors too."""
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        """Refuse requests for another host, or without the token."""
        self.settings["answering"].add(self._stream())
        if not self.guard.knows_host(self.request.host or ""):
            raise HTTPError(403, reason="Unknown host")
        if self.needs_token and not self.guard.admits(self.get_cookie(self.cookie)):
            raise HTTPError(403, reason="Open the link that was printed when the server started")

    def on_finish(self) -> None:
        """Take the connection for idle again."""
        self.settings["answering"].discard(self._stream())

    def on_connection_close(self) -> None:
        """Forget the connection."""
        self.settings["answering"].discard(self._stream())
        super().on_connection_close()

    needs_token = True

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """Say in one line what is wrong; nothing of the request is repeated."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code} {self._reason}\n")


class Nothing(Guarded):
    """Whatever is not served."""

    def prepare(self) -> None:
        """Refuse it."""
        super().prepare()
        raise HTTPError(404)


class Enter(Guarded):
    """The link with the token: keeps it in a cookie that no script can read."""

    needs_token = False

    async def get(self) -> None:
        """Let somebody in."""
        if self.guard.token is None:
            self.redirect("./")
            return
        token = self.get_query_argument("token", "")
        if not self.guard.admits(token):
            await asyncio.sleep(0.5)
            raise HTTPError(403, reason="This is not the token")
        self.set_cookie(self.cookie, token, httponly=True, samesite="Lax", path="/")
        self.redirect("./")


class File(Guarded):
    """One file of the page: a name that is known, never a path."""

    def initialize(self, name: str) -> None:
        """Take the name."""
        self._name = name

    def get(self) -> None:
        """Send the file."""
        kind = _TYPES[self._name.rpartition(".")[2]]
        self.set_header("Content-Type", f"{kind}; charset=utf-8")
        self.finish(assets()[self._name])

    head = get


class Export(Guarded):
    """All trials of a view, in full."""

    async def get(self) -> None:
        """Send them piece by piece, as fast as they are taken."""
        kind = self.get_query_argument("format", "csv")
        if kind not in FORMATS:
            raise HTTPError(400, reason="The format is csv or json")
        try:
            view = View.from_json(json.loads(self.get_query_argument("view", "{}")))
        except (RecordError, ValueError, RecursionError):
            raise HTTPError(400, reason="Not a view") from None
        under_way: set[Export] = self.settings["exports"]
        if len(under_way) >= _MOST_EXPORTS:
            raise HTTPError(503, reason="Too many exports at once; try again")
        self.set_header("Content-Type", f"{FORMATS[kind]}; charset=utf-8")
        self.set_header("Content-Disposition", f'attachment; filename="trials.{kind}"')
        under_way.add(self)
        try:
            while self.hub.poll():  # all that is in the logs now belongs to it
                await asyncio.sleep(0)
            for piece in pieces(self.hub.model, view, kind):
                self.write(piece.encode("utf-8", "replace"))
                await asyncio.wait_for(self.flush(), PATIENCE_S)
                await asyncio.sleep(0)  # others wait too
        except StreamClosedError:
            return
        except asyncio.TimeoutError:  # nothing was taken for so long: nobody reads
            self._stream().close()
        finally:
            under_way.discard(self)


class Live(Guarded, WebSocketHandler):
    """The socket over which the page is kept up to date."""

    def prepare(self) -> None:
        """Refuse one reader too many."""
        super().prepare()
        if len(self.hub.readers) >= MOST_READERS:
            raise HTTPError(503, reason="Too many readers")

    def check_origin(self, origin: str) -> bool:
        """Return whether the page that asks is ours."""
        return self.guard.knows_origin(origin, self.request.host or "")

    async def get(self, *args: object, **kwargs: object) -> None:
        """Refuse what is not from a page of ours; what does not say so is no browser."""
        # Asked here too: tornado knows origins that it takes for the server's own.
        if not self.check_origin(self.request.headers.get("Origin") or ""):
            raise HTTPError(403, reason="No page of this server")
        await super().get(*args, **kwargs)

    def open(self, *args: str, **kwargs: str) -> None:
        """Begin to tell."""
        connection = self.ws_connection
        if connection is not None:
            self.settings["keep"](getattr(connection, "stream", None))
        self._reader = Viewer(self.hub, self._sent, self._abort)
        self._talk = asyncio.ensure_future(self._talked())

    async def _talked(self) -> None:
        try:
            with suppress(WebSocketClosedError, StreamClosedError, asyncio.CancelledError):
                await self._reader.talk()
        except Exception as error:  # said here and there, and the page tries again
            logger.exception("the page: what is looked at cannot be told")
            why = f"{type(error).__name__}: {error}".encode("ascii", "replace").decode()
            self.close(1011, why[:_LONGEST_REASON])

    async def _sent(self, message: str) -> None:
        await self.write_message(message)

    def _abort(self) -> None:
        stream = getattr(self.ws_connection, "stream", None)
        if stream is not None:
            stream.close()

    def on_message(self, message: str | bytes) -> None:
        """Note what the client looks at; other messages close the connection."""
        try:
            self._reader.ask(View.from_json(json.loads(message)))
        except (RecordError, ValueError, RecursionError):
            self.close(1003, "not a view")

    def on_close(self) -> None:
        """Tell no more."""
        self._talk.cancel()


class Bounded(HTTPServer):
    """A server with at most so many connections: one too many ends the oldest that idles."""

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Begin with none."""
        super().initialize(*args, **kwargs)
        self._open: dict[IOStream, None] = {}
        self.answering: set[IOStream | None] = set()

    def handle_stream(self, stream: IOStream, address: tuple[object, ...]) -> None:
        """Take a connection."""
        for old in [one for one in self._open if one.closed()]:
            del self._open[old]
            self.answering.discard(old)
        if len(self._open) >= _MOST:
            idle = (one for one in self._open if one not in self.answering)
            oldest = next(idle, next(iter(self._open)))
            del self._open[oldest]
            oldest.close()
        self._open[stream] = None
        super().handle_stream(stream, address)

    def keep(self, stream: IOStream | None) -> None:
        """Count a connection no more: the number of readers is bounded elsewhere."""
        if stream is not None:
            self._open.pop(stream, None)
            self.answering.discard(stream)


def application(hub: Hub, guard: Guard, port: int) -> Application:
    """Return the web application, which answers requests."""
    names = [name for name in assets() if name != "index.html"]
    return Application(
        [
            (r"/", File, {"name": "index.html"}),
            *[(f"/static/{name.replace('.', '[.]')}", File, {"name": name}) for name in names],
            (r"/enter", Enter),
            (r"/export", Export),
            (r"/live", Live),
        ],
        default_handler_class=Nothing,
        log_function=lambda handler: None,
        websocket_max_message_size=_MESSAGE,
        websocket_ping_interval=20,
        hub=hub,
        guard=guard,
        port=port,
    )


@asynccontextmanager
async def serving(
    model: Model, guard: Guard, port: int | None = None
) -> AsyncIterator[tuple[str, Hub]]:
    """Serve the page while the context is open; gives the link to it, and the hub.

    Args:
        model: the logs.
        guard: where to listen, and who may ask.
        port: where; by default `DEFAULT_PORT`, or any where that is taken.

    Raises:
        AutotuneError: the address or port cannot be had.
    """
    logging.getLogger("tornado").setLevel(logging.ERROR)
    sockets = _bound(guard.address, port)
    number = sockets[0].getsockname()[1]
    hub = Hub(model)
    app = application(hub, guard, number)
    server = Bounded(
        app,
        max_header_size=_HEADER,
        max_body_size=_HEADER,
        idle_connection_timeout=_IDLE_S,
        chunk_size=16 << 10,
    )
    app.settings.update(keep=server.keep, answering=server.answering, exports=set())
    server.add_sockets(sockets)
    following = asyncio.ensure_future(hub.follow())
    try:
        yield _link(guard, number), hub
    finally:
        following.cancel()
        server.stop()
        hub.close()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.close_all_connections(), 2)


def run(
    model: Model,
    guard: Guard,
    port: int | None,
    ready: Callable[[str], None],
    until: Callable[[], Any] | None = None,
) -> None:
    """Serve until interrupted, or until what ``until`` returns has happened.

    Args:
        model, guard, port: see `serving`.
        ready: called with the link.
        until: makes something to await.
    """

    async def served() -> None:
        async with serving(model, guard, port) as (link, _):
            ready(link)
            await (until() if until else asyncio.Event().wait())

    asyncio.run(served())


def _link(guard: Guard, port: int) -> str:
    address = guard.address
    if address in ("0.0.0.0", "::", "", "*"):
        import socket

        address = socket.gethostname()
    name = f"[{address}]" if ":" in address else address
    way = f"/enter?token={guard.token}" if guard.token else "/"
    return f"http://{name}:{port}{way}"


def _bound(address: str, port: int | None) -> list[Any]:
    try:
        return bind_sockets(DEFAULT_PORT if port is None else port, address)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        taken = number in (errno.EADDRINUSE, errno.EACCES)
        if taken and port is None:
            return _bound(address, 0)
        why, where = getattr(error, "strerror", None) or error, port or DEFAULT_PORT
        do = "--port, or 0 for any that is free" if taken else "--host, an address of this machine"
        raise AutotuneError(
            f"serve: cannot listen on {address}:{where}: {why}; give another {do}"
        ) from error
