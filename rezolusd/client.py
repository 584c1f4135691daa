"""Asks a running daemon over HTTP, TCP or unix socket; sizes and times bounded."""

import http.client
import socket
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

PORT: Final = 4241
TIMEOUT: Final = 5.0
MAX_BYTES: Final = 16 << 20


class ClientError(Exception):
    """The daemon could not be asked or did not answer well; the message is one line."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def connection(endpoint: str) -> http.client.HTTPConnection:
    """A connection to `host`, `host:port`, `http://host:port` or `unix:/path`. Raises `ClientError`."""
    if endpoint.startswith("unix:"):
        return _UnixConnection(endpoint.removeprefix("unix:"))
    bare = endpoint.count(":") > 1 and "[" not in endpoint and "//" not in endpoint
    text = f"//[{endpoint}]" if bare else endpoint if "//" in endpoint else f"//{endpoint}"
    try:
        parts = urlsplit(text, scheme="http")
        host, port = parts.hostname, parts.port or PORT
    except ValueError as error:
        raise ClientError(f"{endpoint}: not an endpoint, {error}") from error
    if parts.scheme != "http" or not host:
        raise ClientError(
            f"{endpoint}: not an endpoint, write host, host:port, http://host:port or unix:/path"
        )
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT)


def fetch_json(endpoint: str, path: str) -> dict[str, Any]:
    """The JSON object at `path`. Raises `ClientError`."""
    try:
        asked = connection(endpoint)
        asked.request("GET", path, headers={"Connection": "close", "Accept": "application/json"})
        response = asked.getresponse()
        body = response.read(MAX_BYTES)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ClientError(f"{endpoint}: no answer: {reason}") from error
    if response.status != 200:
        raise ClientError(f"{endpoint}: {path} answered {response.status} {response.reason}")
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ClientError(f"{endpoint}: {path} is no JSON object, is this a rezolusd?") from error
