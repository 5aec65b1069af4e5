"""What `twofold serve` runs: the host and the server of the page, until a signal ends them."""

import asyncio
import http.client
import ipaddress
import json
import logging
import os
import signal
import socket
import ssl
import time
import webbrowser
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from twofold.cli.output import Output
from twofold.client.negotiate import WantedVersion
from twofold.errors import LocalError
from twofold.host.host import Host, MakePolicy
from twofold.host.state_files import default_journal, state_file
from twofold.journal.journal import JournalLocked
from twofold.journal.sqlite import SqliteJournal
from twofold.text import sanitize
from twofold.web.access import Access, Place, Tokens, read_tokens
from twofold.web.app import App
from twofold.web.server import Server, certificate, listen

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_RETAINED: Final = 3600.0  # seconds between two looks for sessions to delete
_ASKED: Final = 5.0  # seconds that the server has to answer `--link`
_REDIRECT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Twofold</title>
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}"></head>
<body><p><a href="{url}">Open the page of Twofold</a></p></body></html>
"""


class NoServer(LocalError):
    """There is no server to ask for a link."""


class Served(Struct, frozen=True):
    """What is served, and where."""

    words: tuple[str, ...]
    """What names the agent on the command line."""
    dashes: bool
    token: str | None
    """The token for an agent at a URL."""
    cwd: Path
    policy: Any  # MakePolicy
    version: Any  # WantedVersion | None
    address: str
    port: int
    cert: Path | None
    key: Path | None
    names: tuple[str, ...]
    proxy: str
    has_access: bool
    """Whether one has to be let in."""
    opens: bool
    """Whether a browser is opened."""
    home: str
    """The user's home directory."""
    journal: Path | None
    """Where sessions are kept; None for the state directory."""
    keep: float | None
    """After how many seconds without a change a session is deleted."""
    keep_size: int | None
    """How many bytes all sessions may have."""
    idle_after: float | None
    """After how many seconds without work an agent is ended."""
    limits: Any  # Limits
    """How much it does at once."""


async def run_server(served: Served, output: Output) -> int:
    """Serve until a signal; returns the exit status.

    Raises:
        NotListening: The port cannot be used.
        BadCertificate: The certificate cannot be used.
        TokenNotKept: The tokens cannot be kept.
    """
    folder = state_file("serve")
    if folder is None:
        raise LocalError("There is no home directory to keep tokens in: set XDG_STATE_HOME.")
    tokens = read_tokens(folder) if served.has_access else None
    tls = None
    if served.cert is not None and served.key is not None:
        tls = certificate(served.cert, served.key)
    listening = listen(served.address, served.port)
    async with AsyncExitStack() as stack:
        stack.callback(listening.close)
        journal = await _open_journal(served.journal or default_journal())
        stack.push_async_callback(journal.close)
        place = place_of(served, listening)
        access = Access(place, tokens, time.time)
        policy: MakePolicy = served.policy
        version: WantedVersion | None = served.version
        host = Host(
            served.words,
            dashes=served.dashes,
            token=served.token,
            cwd=served.cwd,
            policy=policy,
            version=version,
            journal=journal,
            idle_after=served.idle_after,
            limits=served.limits,
        )
        app = App(host, access, behind_proxy=bool(served.proxy), home=served.home)
        server = Server(app, listening, tls=tls, tokens=folder if tokens else None)
        logs = logging.StreamHandler(_Lines(output))
        logs.setFormatter(logging.Formatter("%(message)s"))
        logging.getLogger("twofold").addHandler(logs)
        stack.callback(logging.getLogger("twofold").removeHandler, logs)
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        logging.getLogger("uvicorn").addHandler(logs)
        stack.callback(logging.getLogger("uvicorn").removeHandler, logs)
        stack.callback(_forget, _write_address(folder, place, listening, is_tls=tls is not None))
        _handle_signals(server, host)
        try:
            await host.open()
            await host.new_session()
            retaining = asyncio.create_task(_retain(journal, served))
            stack.callback(retaining.cancel)
            running = asyncio.create_task(server.run())
            _invite(served, access, folder, output, stack)
            await running
        finally:
            await host.close()
    return 0


async def _open_journal(path: Path) -> SqliteJournal:
    try:
        return await SqliteJournal.open(path)
    except JournalLocked as error:
        raise LocalError(
            f"{error} With --journal FILE this server keeps its sessions in a file of its own."
        ) from None


async def _retain(journal: SqliteJournal, served: Served) -> None:
    """Delete what is too old or too much, from time to time; never a session that is open."""
    keep = timedelta(seconds=served.keep) if served.keep is not None else None
    while keep is not None or served.keep_size is not None:
        try:
            await journal.retain(keep, served.keep_size)
        except LocalError as error:
            logging.getLogger("twofold").warning("Old sessions are not deleted: %s", error)
        await asyncio.sleep(_RETAINED)


def place_of(served: Served, listening: socket.socket) -> Place:
    """Where the server is."""
    address, port = listening.getsockname()[:2]
    names = list(served.names)
    bound = ipaddress.ip_address(address)
    local = ["127.0.0.1", "localhost"] if bound.version == 4 else ["[::1]", "localhost"]
    if bound.is_unspecified:
        names += [socket.gethostname(), "127.0.0.1", "localhost", "[::1]"]
    elif bound.is_loopback:
        names += [served.address, *local] if served.address == "localhost" else local
    else:
        names += [address if bound.version == 4 else f"[{address}]"]
        names += [] if served.address == address else [served.address]
    scheme = "https" if served.cert is not None else "http"
    return Place.of(scheme, names, port, public=served.proxy)


def _handle_signals(server: Server, host: Host) -> None:
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        server.stop()
        if len(received) > 1:
            host.hurry()

    for number in _ENDING:
        loop.add_signal_handler(number, end, number)


class _Lines:
    """A stream of a log: its lines on standard error."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def write(self, text: str) -> None:
        if text.strip():
            self._output.report(f"twofold serve: {text.rstrip()}")

    def flush(self) -> None:
        """Nothing is held back."""


# ---- the way in --------------------------------------------------------------------------------


def _invite(
    served: Served, access: Access, folder: Path, output: Output, stack: AsyncExitStack
) -> None:
    """Print where the page is, and open it."""
    url = access.place.url
    if not served.has_access:
        _open(f"{url}/", served.opens)
        output.text(f"Twofold is at {url}/ for everyone on this machine. Ctrl-C ends it.\n")
        return
    if served.opens:
        file = folder / f"enter-{os.getpid()}.html"
        _write_private(file, _REDIRECT.format(url=access.link("controller")))
        stack.callback(_forget, file)
        if _open(file.as_uri(), opens=True):
            output.text(
                f"Twofold is at {url}/ and opens in your browser. `twofold serve --link` lets"
                " another one in. Ctrl-C ends it.\n"
            )
            return
    output.text(
        f"Open {access.link('controller')} in a browser: the address lets one in, once."
        " Ctrl-C ends Twofold.\n"
    )


def _open(url: str, opens: bool) -> bool:
    """Whether a browser was opened."""
    if not opens:
        return False
    with suppress(webbrowser.Error, OSError):
        return webbrowser.open(url)
    return False


def _write_private(path: Path, text: str) -> None:
    """Write a file that only the user can read."""
    with suppress(FileNotFoundError):
        path.unlink()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)


def _forget(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


# ---- another way in ----------------------------------------------------------------------------


def _write_address(folder: Path, place: Place, listening: socket.socket, *, is_tls: bool) -> Path:
    """Write where the server is, for `--link`."""
    address, port = listening.getsockname()[:2]
    bound = ipaddress.ip_address(address)
    if bound.is_unspecified:
        address = "127.0.0.1" if bound.version == 4 else "::1"
    name = next(host for host in sorted(place.hosts) if host.endswith(f":{port}"))
    facts = {"address": address, "port": port, "tls": is_tls, "name": name}
    path = folder / f"server-{port}.json"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_private(path, json.dumps(facts))
    return path


def print_link(port: int | None, role: str, output: Output) -> int:
    """Print an address that lets one more browser in; returns the exit status.

    Args:
        port: The port of the server; None if only one runs.
        role: What the browser may do.
        output: Where to print.

    Raises:
        NoServer: There is no server, or more than one.
    """
    folder = state_file("serve")
    found = _servers(folder, port) if folder is not None else []
    if folder is None or not found:
        on = f" on port {port}" if port is not None else ""
        raise NoServer(f"No server of yours runs{on}. Start one with: twofold serve")
    answers = [answer for each in found if (answer := _ask(each, folder, role)) is not None]
    if not answers:
        raise NoServer("No server of yours answers any more. Start one with: twofold serve")
    if len(answers) > 1:
        ports = ", ".join(str(each["port"]) for each in found)
        raise NoServer(f"More than one server runs. Choose one with --port: {ports}")
    output.text(f"{sanitize(answers[0])}\n")
    return 0


def _servers(folder: Path, port: int | None) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for path in sorted(folder.glob("server-*.json" if port is None else f"server-{port}.json")):
        with suppress(OSError, ValueError):
            facts = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(facts, dict) and {"address", "port", "tls", "name"} <= facts.keys():
                made.append(facts)
    return made


def _ask(facts: dict[str, Any], folder: Path, role: str) -> str | None:
    """The address that a server gives out; None if it does not answer."""
    tokens: Tokens = read_tokens(folder)
    address, port = str(facts["address"]), int(facts["port"])
    connection: http.client.HTTPConnection
    if facts["tls"]:
        # the connection does not leave this machine, and the certificate is for another name
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(address, port, timeout=_ASKED, context=context)
    else:
        connection = http.client.HTTPConnection(address, port, timeout=_ASKED)
    headers = {"Host": str(facts["name"]), "Authorization": f"Bearer {tokens.controller}"}
    try:
        connection.request("POST", "/links", json.dumps({"role": role}), headers)
        response = connection.getresponse()
        data = response.read(1 << 16)
        url = json.loads(data).get("url") if response.status == 200 else None
        return url if isinstance(url, str) else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
