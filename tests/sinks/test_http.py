"""The server on real sockets: statuses, closing, stalled and rude clients, shutdown."""

import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from config.model import Listen
from sinks import http
from sinks.answer import Answer, Ask, Responder
from sinks.http import AddressError, Server, Site, bind, bound

BIG = b"x" * (8 << 20)


async def slowly(_: Ask) -> Answer:
    await trio.sleep(0.05)
    return Answer(b"slow\n")


def broken(_: Ask) -> Answer:
    raise RuntimeError("on purpose")


def echo(ask: Ask) -> Answer:
    return Answer(repr(ask).encode(), headers=(("x-extra", "1"),))


SITE: dict[str, Responder] = {
    "/": lambda _: Answer(b"front\n"),
    "/slow": slowly,
    "/broken": broken,
    "/echo": echo,
}


class Running:
    def __init__(self, listener: socket.socket, server: Server, stop: trio.Event) -> None:
        self.listener = listener
        self.server = server
        self.stop = stop
        self.ended = trio.Event()

    async def connect(self) -> trio.SocketStream:
        if self.listener.family == socket.AF_UNIX:
            return await trio.open_unix_socket(self.listener.getsockname())
        return await trio.open_tcp_stream(*self.listener.getsockname()[:2])

    async def empty(self) -> None:
        """Wait until the server has no connection left."""
        with trio.fail_after(5):
            while self.server.connections:
                await trio.sleep(0.01)

    async def ask(self, request: str) -> bytes:
        """Everything the server sends on a fresh connection until it closes it."""
        stream = await self.connect()
        async with stream:
            await stream.send_all(request.replace("\n", "\r\n").encode())
            pieces = [piece async for piece in stream]
        return b"".join(pieces)

    async def get(self, path: str, extra: str = "", method: str = "GET") -> bytes:
        return await self.ask(f"{method} {path} HTTP/1.1\nHost: x\nConnection: close\n{extra}\n")


@asynccontextmanager
async def running(listen: Listen | None = None) -> AsyncIterator[Running]:
    listener = bind(listen or Listen("127.0.0.1", 0))
    site = Site(SITE, hot={"/hot": lambda _: Answer(b"hot\n"), "/big": lambda _: Answer(BIG)})
    made = Running(listener, Server(site, listener), trio.Event())

    async def serve() -> None:
        await made.server.run(made.stop)
        made.ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with trio.fail_after(20):
            yield made
            made.stop.set()
            await made.ended.wait()


@pytest.mark.parametrize("path", ["/", "/hot", "/slow"])
async def test_connection_close_is_closed_at_once(path: str) -> None:
    async with running() as site:
        with trio.fail_after(1):
            head, _, body = (await site.get(path)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in head.lower()
    assert body == {"/": b"front\n", "/hot": b"hot\n", "/slow": b"slow\n"}[path]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("GET", "/hot/", 404),
        ("POST", "/hot", 405),
        ("DELETE", "/", 405),
        ("OPTIONS", "/", 405),
        ("GET", "/broken", 500),
    ],
)
async def test_refusals_are_plain_text(method: str, path: str, status: int) -> None:
    async with running() as site:
        head, _, body = (await site.get(path, method=method)).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status}".encode())
    assert b"content-type: text/plain" in head.lower()
    assert b"<" not in body
    if status == 405:
        assert b"allow: get, head" in head.lower() or b"allow: head, get" in head.lower()


@pytest.mark.parametrize("path", ["/", "/hot"])
async def test_head_has_the_length_and_no_body(path: str) -> None:
    async with running() as site:
        head, _, body = (await site.get(path, method="HEAD")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-length: " in head
    assert body == b""


async def test_query_and_headers_reach_the_responder() -> None:
    async with running() as site:
        answer = await site.get("/echo?interval=1m%2030s&x=", "Accept: a/b\nAccept-Encoding: gzip\n")
    assert repr(Ask({"interval": "1m 30s"}, "a/b", "gzip")).encode() in answer
    assert b"x-extra: 1" in answer


async def test_many_requests_on_one_connection() -> None:
    async with running() as site:
        stream = await site.connect()
        for _ in range(50):
            for path, body in (("/hot", b"hot\n"), ("/", b"front\n")):
                await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                received = b""
                while not received.endswith(body):
                    received += await stream.receive_some(65536)
        await stream.aclose()


async def test_garbage_is_a_400_and_costs_nobody_else() -> None:
    async with running() as site:
        assert (await site.ask("\x00\x01 nonsense\n\n")).startswith(b"HTTP/1.1 400")
        assert (await site.ask("GET / HTTP/1.1\n" + "X: y\n" * 5_000)).startswith(b"HTTP/1.1 431")
        assert b"front" in await site.get("/")


async def test_stopping_does_not_wait_for_clients_that_do_not_read() -> None:
    async with running() as site:
        stalled = [await site.connect() for _ in range(20)]
        for stream in stalled:
            await stream.send_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        idle = await site.connect()
        await trio.sleep(0.2)
        begin = trio.current_time()
        site.stop.set()
        await site.ended.wait()
        assert trio.current_time() - begin < 1.5
        for stream in (*stalled, idle):
            await stream.aclose()


async def test_stopping_lets_a_request_under_way_finish() -> None:
    async with running() as site:
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                assert b"slow" in await site.get("/slow")

            nursery.start_soon(ask)
            await trio.sleep(0.02)
            site.stop.set()


@pytest.mark.parametrize("requests", [0, 1])
async def test_a_connection_ends_with_its_client(requests: int) -> None:
    async with running() as site:
        stream = await site.connect()
        for _ in range(requests):
            await stream.send_all(b"GET /hot HTTP/1.1\r\nHost: x\r\n\r\n")
            await stream.receive_some(1000)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await stream.aclose()
        await site.empty()


async def test_an_idle_connection_ends_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "KEEP_ALIVE", 0.5)
    async with running() as site:
        stream = await site.connect()
        await stream.send_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        with trio.fail_after(5):
            received = b"".join([piece async for piece in stream])
        assert received.count(b"slow\n") == 2
        await site.empty()
        await stream.aclose()


async def test_a_peer_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SEND_TIMEOUT", 0.1)
    async with running() as site:
        stream = await site.connect()
        await stream.send_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        await site.empty()
        await stream.aclose()


async def test_too_many_connections_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)
    async with running() as site:
        held = [await site.connect() for _ in range(3)]
        await trio.sleep(0.1)
        refused = await site.connect()
        with trio.fail_after(2), contextlib.suppress(trio.BrokenResourceError):
            assert await refused.receive_some(1) == b""
        for stream in (*held, refused):
            await stream.aclose()


async def test_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    async with running(Listen(path=path)) as site:
        assert bound(site.listener) == f"unix:{path}"
        assert b"front" in await site.get("/")
        with pytest.raises(AddressError, match="in use by another process"):
            bind(Listen(path=path))
    bind(Listen(path=path)).close()  # a socket left behind is replaced


def test_a_file_in_the_place_of_the_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(AddressError, match="not a socket"):
        bind(Listen(path=str(tmp_path / "file")))
    assert (tmp_path / "file").read_text() == "precious"


def test_a_port_in_use_is_one_line_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressError, match=f"^cannot listen on 127.0.0.1:{port}: is in use by another"):
            bind(Listen("127.0.0.1", port))


def test_port_zero_and_ipv6_name_what_was_bound() -> None:
    with bind(Listen("::1", 0)) as listener:
        assert bound(listener) == f"[::1]:{listener.getsockname()[1]}"
        assert listener.getsockname()[1] != 0


@pytest.mark.parametrize(
    "listen", [Listen("no-such-host.invalid", 1), Listen("192.0.2.1", 1), Listen(path="/nonexistent/s")]
)
def test_addresses_that_cannot_be_had(listen: Listen) -> None:
    with pytest.raises(AddressError, match="cannot listen on "):
        bind(listen)
