"""The address of an agent that is reached over the network, and why it could not be reached.

A token is sent in the header `Authorization` only, and only over TLS or to this machine. It is in
no text, no error and no representation made here. Neither is the query of a URL, which often holds
a secret.
"""

import errno
import os
import re
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from twofold.errors import ConnectionEnded, LocalError, PeerError
from twofold.text import one_line

MESSAGE_LIMIT = 32 * 1024 * 1024
"""How many bytes a message of a server may have."""
OPEN_TIMEOUT = 10.0
"""How many seconds a server has to accept a connection."""
DEFAULT_PATH = "/acp"
"""The path of a URL that has none: the one that the protocol names."""

LONGEST_TOKEN = 8192
"""How many characters a token may have."""

_PORTS = {"ws": 80, "http": 80, "wss": 443, "https": 443}
_URL = re.compile(r"(?:wss?|https?)://", re.IGNORECASE)
_TOKEN = re.compile(r"[\x21-\x7e]+\Z")
_LONGEST = 200
_REFUSED = f"[Errno {errno.ECONNREFUSED}]"


class BadUrl(LocalError):
    """A URL, or the token for it, cannot be used.

    Attributes:
        url: The URL without its query and without a password; empty if the token is wrong.
        reason: What is wrong, and what to do.
    """

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url} cannot be used: {reason}" if url else reason)
        self.url = url
        self.reason = reason


class NotReached(PeerError):
    """There is no connection to the agent at a URL.

    Attributes:
        url: The URL without its query.
        reason: Why, and what to do.
        status: The HTTP status that the server answered, if it answered.
    """

    def __init__(self, url: str, reason: str, status: int | None = None) -> None:
        super().__init__(f"The agent at {url} could not be reached: {reason}")
        self.url = url
        self.reason = reason
        self.status = status


class RemoteEnded(ConnectionEnded):
    """The connection to the agent at a URL ended while it was open.

    Attributes:
        url: The URL without its query.
        reason: Why, as far as it is known.
        code: The close code of a WebSocket or the HTTP status, if there was one.
    """

    def __init__(self, url: str, reason: str, code: int | None = None) -> None:
        super().__init__(
            f"The connection to the agent at {url} ended: {reason} What was requested gets no"
            " response."
        )
        self.url = url
        self.reason = reason
        self.code = code


def is_url(text: object) -> bool:
    """Whether a text is a URL that can stand where the command of an agent stands."""
    return isinstance(text, str) and _URL.match(text) is not None


class Endpoint:
    """Where an agent is reached.

    Args:
        url: A URL with the scheme ws, wss, http or https. Without a path it is that of `/acp`.
        token: Sent as `Authorization: Bearer`.

    Raises:
        BadUrl: The URL or the token cannot be used, or the token would be readable on the way.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = _split(url)
        path = parts.path if parts.path not in ("", "/") else DEFAULT_PATH
        self._parts = parts._replace(scheme=parts.scheme.lower(), path=path, fragment="")
        self.host = parts.hostname or ""
        """The name or address of the server."""
        self.port = parts.port or _PORTS[self._parts.scheme]
        """The port of the server."""
        self.secure = self._parts.scheme in ("wss", "https")
        """Whether the connection is encrypted."""
        self.has_token = token is not None
        """Whether a token is sent."""
        self._token = token
        if token is not None:
            self._check_token(token)

    def __repr__(self) -> str:
        return f"Endpoint({self.shown!r})"

    @property
    def shown(self) -> str:
        """The URL, safe to show: without its query."""
        return _shown(self._parts)

    @property
    def wants_websocket(self) -> bool:
        """Whether the URL names a WebSocket and nothing else."""
        return self._parts.scheme in ("ws", "wss")

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine."""
        return _is_loopback(self.host)

    @property
    def websocket_url(self) -> str:
        """The URL to open a WebSocket at."""
        return self._parts._replace(scheme="wss" if self.secure else "ws").geturl()

    @property
    def http_url(self) -> str:
        """The URL to send HTTP requests to."""
        return self._parts._replace(scheme="https" if self.secure else "http").geturl()

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}

    def _check_token(self, token: str) -> None:
        if not _TOKEN.match(token):
            raise BadUrl("", "The token is empty, or has characters that no token has.")
        if not (self.secure or self.loopback):
            raise BadUrl(
                self.shown,
                "the token could be read on the way. Use wss:// or https://, or a tunnel to this"
                " machine.",
            )

    # ---- errors

    def not_reached(self, error: BaseException) -> NotReached:
        """The error for a connection that could not be made."""
        return NotReached(self.shown, _why_not(error, self))

    def refused(self, status: int, detail: str = "", location: str = "") -> NotReached:
        """The error for a server that answered with an HTTP status instead of a connection."""
        return NotReached(self.shown, self.why(status, detail, location), status)

    def why(self, status: int, detail: str = "", location: str = "") -> str:
        """What an HTTP status means here, and what to do."""
        if status == 401 and not self.has_token:
            return (
                "it requires a token (401). Pass `token`, or on the command line --token-file or"
                " the variable TWOFOLD_TOKEN."
            )
        if status == 401:
            return "it does not accept the token (401). Get a new one from who runs the server."
        if status == 403:
            return "it refuses access (403). Ask who runs the server for the right to use it."
        if 300 <= status < 400:
            return (
                f"it redirects to {short(location) or 'another address'} ({status}), and redirects"
                " are not followed: the token would go with them. Use that address if you trust it."
            )
        if status == 404:
            path = short(self._parts.path)
            return (
                f"there is nothing at {path} (404). Check the path; it is usually {DEFAULT_PATH}."
            )
        if status == 413:
            return "the message is too large for it (413)."
        if self._token is not None:
            detail = detail.replace(self._token, "…")
        what = "the server failed" if status >= 500 else "it is not an ACP endpoint"
        more = f": {short(detail)}" if detail.strip() else "."
        return f"{what}, it answered with status {status}{more}"


def short(text: str) -> str:
    """A text of the server on one line, safe to show, and not too long."""
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def why_lost(error: BaseException) -> str:
    """Why a connection ended that was open."""
    for cause in _causes(error):
        if isinstance(cause, ConnectionResetError | BrokenPipeError):
            return "the server, or the network, broke it off."
        if isinstance(cause, TimeoutError):
            return "the server no longer answers."
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed ({_tls_reason(cause)})."
        if isinstance(cause, OSError) and cause.strerror:
            return f"{cause.strerror}."
    return f"{short(str(error)) or type(error).__name__}."


def read_token(file: str | os.PathLike[str]) -> str:
    """The token in a file, which holds nothing else.

    Raises:
        BadUrl: The file cannot be read, or holds no token.
    """
    path = one_line(os.fspath(file))
    try:
        with open(file, "rb") as opened:
            token = opened.read(LONGEST_TOKEN + 1).decode().strip()
    except OSError as error:
        raise BadUrl("", f"The token file {path} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise BadUrl("", f"The token file {path} holds no token: it is not text.") from None
    if len(token) > LONGEST_TOKEN or not _TOKEN.match(token):
        raise BadUrl(
            "", f"The token file {path} holds no token: it must be one word and nothing else."
        )
    return token


# ---- reading a URL -----------------------------------------------------------------------------


def _split(url: str) -> SplitResult:
    if not is_url(url):
        raise BadUrl(short(url), "a URL begins with ws://, wss://, http:// or https://.")
    if any(character.isspace() or not character.isprintable() for character in url):
        raise BadUrl("", "The URL has a blank or a control character in it.")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it raises for a number that is no port
    except ValueError as error:
        raise BadUrl(short(url.partition("?")[0].rpartition("@")[2]), f"{error}.") from None
    if parts.username is not None or parts.password is not None:
        raise BadUrl(
            _shown(parts), "a name or password in a URL ends in logs. Pass a token instead."
        )
    if not parts.hostname:
        raise BadUrl(_shown(parts), "it names no host.")
    return parts


def _shown(parts: SplitResult) -> str:
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    return short(bare.geturl() + ("?…" if parts.query else ""))


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    import ipaddress  # only who passes a token over a URL without TLS needs it

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# ---- errors of the network ---------------------------------------------------------------------


def _tls_reason(error: ssl.SSLError) -> str:
    return short(getattr(error, "reason", None) or str(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _why_not(error: BaseException, endpoint: Endpoint) -> str:
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"its certificate is not trusted: {short(cause.verify_message)}. If it is your"
                " own, name the file of its authority in the variable SSL_CERT_FILE."
            )
        if isinstance(cause, ssl.SSLError):
            return (
                f"TLS failed ({_tls_reason(cause)}). If the server has no TLS, the"
                " URL begins with ws:// or http://."
            )
        if isinstance(cause, socket.gaierror):
            return f"the host {short(endpoint.host)} is unknown. Check the name and the network."
        if isinstance(cause, ConnectionRefusedError) or _REFUSED in str(cause):
            return (
                f"nothing listens on port {endpoint.port} of {short(endpoint.host)}. Start the"
                " server, or check the port."
            )
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return f"it did not answer within {OPEN_TIMEOUT:g} seconds. Check the address."
    if any(isinstance(cause, ConnectionResetError | EOFError) for cause in causes):
        return "the server closed the connection at once. Is it an ACP endpoint, with TLS?"
    reason = next((each.strerror for each in causes if isinstance(each, OSError)), None)
    return f"{short(reason or str(error)) or type(error).__name__}."
