"""The one HTTP server: Quart on hypercorn's trio worker, with its own listener, deadlines and shutdown."""

import contextlib
import errno
import logging
import math
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState, LifespanState
from quart import Response, request
from quart_trio import QuartTrio

from config.model import Listen
from sinks.answer import Answer, Ask, ImmediateResponder, Responder

log = logging.getLogger(__name__)

# A peer that takes nothing for this long is gone; hypercorn's own send would wait for it for ever.
SEND_TIMEOUT: Final = 30.0
# Longer than the usual scrape intervals, so that a scraper keeps its connection.
KEEP_ALIVE: Final = 75.0
# How long requests under way may take to finish once the daemon stops.
GRACE: Final = 0.5
MAX_CONNECTIONS: Final = 4096
BACKLOG: Final = 128

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class AddressError(Exception):
    """The address cannot be listened on; the message is one line with the address in it."""


def bind(listen: Listen) -> socket.socket:
    """A listening socket on `listen`. Raises `AddressError`."""
    try:
        if listen.path:
            return _bind_unix(listen.path)
        found = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        reason = "is in use by another process" if error.errno == errno.EADDRINUSE else error.strerror
        raise AddressError(f"cannot listen on {listen}: {reason}") from error


def _bind_unix(path: str) -> socket.socket:
    """A unix socket at `path`; one that nobody listens on any more is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with (
            contextlib.suppress(FileNotFoundError),
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe,
        ):
            if not stat.S_ISSOCK(os.stat(path).st_mode):
                raise FileExistsError(errno.EEXIST, "exists and is not a socket", path)
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                Path(path).unlink()
        listener.bind(path)
        os.chmod(path, 0o660)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def listening(listen: Listen) -> Iterator[socket.socket]:
    """A listening socket on `listen` that leaves nothing behind. Raises `AddressError`."""
    with bind(listen) as listener:
        yield listener
        if listen.path:
            Path(listen.path).unlink(missing_ok=True)


def bound(listener: socket.socket) -> str:
    """The address a socket is really bound to, as `Listen` would be written."""
    name = listener.getsockname()
    return str(Listen(path=name)) if isinstance(name, str) else str(Listen(name[0], name[1]))


class Site:
    """The ASGI application: one responder a path.

    `hot` paths are answered past the framework, which on such a request does nothing but cost two thirds
    as much again as the server itself (measured on a 12 KB page: 0.58 ms a request against 0.39 ms).
    """

    def __init__(
        self, responders: Mapping[str, Responder], hot: Mapping[str, ImmediateResponder] | None = None
    ) -> None:
        self._hot = hot or {}
        self._app = QuartTrio(__name__, static_folder=None)
        for path, responder in {**responders, **self._hot}.items():
            self._app.add_url_rule(
                path, path, partial(_respond, responder), methods=["GET"], provide_automatic_options=False
            )
        self._app.register_error_handler(404, partial(_refuse, 404, "not found, / lists what there is"))
        self._app.register_error_handler(405, partial(_refuse, 405, "only GET and HEAD"))
        self._app.register_error_handler(500, partial(_refuse, 500, "internal error, the log says more"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_shielded(event: Any) -> None:
            # The framework cancels itself on the disconnect that hypercorn reports from within the last
            # send; unshielded, that send would leave the connection half closed.
            with trio.CancelScope(shield=True):
                await send(event)

        responder = self._hot.get(scope["path"]) if scope["type"] == "http" else None
        if responder is None or scope["method"] != "GET":
            await self._app(scope, receive, send_shielded)  # type: ignore[arg-type]
            return
        answer = responder(_ask(scope))
        headers = [(name.encode(), value.encode()) for name, value in _headers(answer).items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})


def _ask(scope: Mapping[str, Any]) -> Ask:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    return Ask(query, headers.get("accept", ""), headers.get("accept-encoding", ""))


def _headers(answer: Answer) -> dict[str, str]:
    return {
        "content-type": answer.content_type,
        "content-length": str(len(answer.body)),
        **dict(answer.headers),
    }


async def _respond(responder: Responder) -> Response:
    answer = responder(_ask(request.scope))
    if not isinstance(answer, Answer):
        answer = await answer
    return Response(answer.body, answer.status, _headers(answer))


async def _refuse(status: int, text: str, error: Any) -> Response:
    headers = {name: value for name, value in error.get_headers() if name.lower() == "allow"}
    return Response(f"{text}\n", status, headers, content_type="text/plain; charset=utf-8")


class _Idle:
    """How long a connection may stay without a request, as a deadline on its reading.

    In place of hypercorn's task, which costs a request a third of its time and outlives the connection.
    """

    def __init__(self) -> None:
        self.reading = trio.CancelScope()

    async def restart(self, *_: Any) -> None:
        self.reading.deadline = trio.current_time() + KEEP_ALIVE

    async def stop(self) -> None:
        self.reading.deadline = math.inf


class _Protocol(TCPServer):
    """Hypercorn's side of a connection, with fewer packets and fewer turns of the event loop a request.

    A response's head is held back until the body's first piece, or the empty end of the message, follows:
    one packet and one wake-up of the client instead of two.
    """

    def __init__(self, site: Site, config: Config, context: WorkerContext, stream: trio.SocketStream) -> None:
        state = ConnectionState(LifespanState())
        super().__init__(ASGIWrapper(cast(Any, site)), config, context, state, cast(Any, stream))
        self.idle_task: Any = _Idle()
        self._held = b""

    def close_if_idle(self) -> None:
        """End the connection unless a request is under way."""
        if self.idle_task.reading.deadline < math.inf:
            self.idle_task.reading.cancel()

    async def _read_data(self) -> None:
        with self.idle_task.reading as reading:
            await super()._read_data()
        if reading.cancelled_caught:
            await self.protocol.handle(Closed())

    async def protocol_send(self, event: Event) -> None:
        if not isinstance(event, RawData):
            await super().protocol_send(event)
        elif event.data.startswith(b"HTTP/1.") and not self._held:
            self._held = event.data
        else:
            data, self._held = self._held + event.data, b""
            if data:
                await self._send(data)

    async def _send(self, data: bytes) -> None:
        """Send or, when the peer does not take it in time or has gone, close. Not interrupted by others."""
        try:
            self.send_lock.acquire_nowait()  # unlike acquire() no turn of the loop
        except trio.WouldBlock:
            await self.send_lock.acquire()
        deadline = trio.current_time() + SEND_TIMEOUT
        try:
            with trio.CancelScope(shield=True, deadline=deadline) as sending:
                await self.stream.send_all(data)
            if sending.cancelled_caught:
                await trio.aclose_forcefully(self.stream)
                await self.protocol.handle(Closed())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await self.protocol.handle(Closed())
        finally:
            self.send_lock.release()


class Server:
    """Serves a site on a listening socket until told to stop."""

    def __init__(self, site: Site, listener: socket.socket) -> None:
        self.connections: dict[trio.SocketStream, _Protocol] = {}
        self._site = site
        self._listener = listener
        self._last_gone = trio.Event()
        self._context = WorkerContext(None)
        self._config = Config()
        self._config.errorlog = log
        self._config.include_server_header = False

    async def run(self, stop: trio.Event) -> None:
        """Accept and serve; once `stop` is set finish what is under way, for at most `GRACE`, and return."""
        self._listener.setblocking(False)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._listener))
        async with trio.open_nursery() as serving:
            async with trio.open_nursery() as accepting:
                accept = partial(trio.serve_listeners, self._serve, [listener], handler_nursery=serving)
                accepting.start_soon(accept)
                await stop.wait()
                accepting.cancel_scope.cancel()
            await listener.aclose()
            await self._finish()
            serving.cancel_scope.cancel()

    async def _finish(self) -> None:
        """Let requests under way end; then close whatever is still open."""
        await self._context.terminated.set()
        self._last_gone = trio.Event()
        for protocol in self.connections.values():
            protocol.close_if_idle()
        with trio.move_on_after(GRACE):
            if self.connections:
                await self._last_gone.wait()
        # Hypercorn shields its sends from cancellation; a closed socket is what ends them.
        for stream in set(self.connections):
            await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.SocketStream) -> None:
        if len(self.connections) >= MAX_CONNECTIONS:
            log.warning("refusing a connection, %d are open", len(self.connections))
            await trio.aclose_forcefully(stream)
            return
        protocol = _Protocol(self._site, self._config, self._context, stream)
        self.connections[stream] = protocol
        try:
            await protocol
        except Exception:
            log.warning("a connection ended with an error", exc_info=True)
        finally:
            del self.connections[stream]
            if not self.connections:
                self._last_gone.set()
