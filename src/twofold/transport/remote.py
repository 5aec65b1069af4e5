"""Opens the transport to an agent at a URL; what it needs is imported only then.

ws:// and wss:// are a WebSocket. For http:// and https:// a WebSocket is tried first, because it is
one connection with one order; a server that does not upgrade is used by streamable HTTP.
"""

from typing import Protocol

from twofold.errors import LocalError
from twofold.transport.base import Transport
from twofold.transport.endpoint import MESSAGE_LIMIT, Endpoint, NotReached

EXTRA = "remote"
_NO_FALLBACK = frozenset({401, 403, *range(300, 400)})
"""What a server answers to an upgrade that it would answer to any other request, too."""


class RemoteTransport(Transport, Protocol):
    """A transport to an agent at a URL."""

    @property
    def way(self) -> str:
        """What it is called."""


class RemoteNotInstalled(LocalError):
    """What connects to a URL is not installed.

    Attributes:
        package: The package that is missing.
    """

    def __init__(self, package: str) -> None:
        super().__init__(
            f"An agent at a URL needs the package {package}: pip install 'twofold[{EXTRA}]'."
        )
        self.package = package


async def open_remote(
    url: str | Endpoint, *, token: str | None = None, limit: int = MESSAGE_LIMIT
) -> RemoteTransport:
    """Connect to an agent at a URL.

    Args:
        url: The URL, with the scheme ws, wss, http or https.
        token: Sent as `Authorization: Bearer`.
        limit: How many bytes a message of the server may have.

    Raises:
        BadUrl: The URL or the token cannot be used.
        NotReached: There is no connection; the text states why and what to do.
        RemoteNotInstalled: The extra `remote` is not installed.
    """
    endpoint = url if isinstance(url, Endpoint) else Endpoint(url, token)
    try:
        from twofold.transport.websocket import WebSocket

        try:
            return await WebSocket.open(endpoint, limit=limit)
        except NotReached as error:
            if endpoint.wants_websocket or error.status is None or error.status in _NO_FALLBACK:
                raise
        from twofold.transport.http import StreamableHttp

        return await StreamableHttp.open(endpoint, limit=limit)
    except ModuleNotFoundError as error:
        raise RemoteNotInstalled((error.name or "").partition(".")[0]) from None
