"""`twofold serve`: see and steer sessions in a browser.

This module reads the options, checks that they are safe together before anything is started, and
runs the server until a signal ends it. All that it needs is imported when the command runs.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from twofold.cli.completers import complete_command
from twofold.cli.interrupts import raise_on_interrupt
from twofold.cli.options import AgentCommand, duration, size_in_bytes, token_file
from twofold.cli.output import Output
from twofold.cli.rules import policy_of, rules
from twofold.errors import LocalError, TwofoldError

if TYPE_CHECKING:
    from twofold.cli.run_server import Served

PORT: Final = 8377
IDLE_AFTER: Final = "30m"
_NEEDED: Final = frozenset({"starlette", "uvicorn", "websockets", "h11", "anyio"})


class NeedsExtra(LocalError):
    """The packages of the server are not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"The page needs the package {package}. Install it with: pip install 'twofold[serve]'"
        )


# after COMMAND, words that look like our options belong to the command
@click.command(cls=AgentCommand, context_settings={"allow_interspersed_args": False})
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Listen there. Any address that others can reach needs --tls-cert or --behind-proxy.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Listen on this port; 0 takes any that is free.  [default: {PORT}]",
)
@click.option("--no-open", is_flag=True, help="Open no browser: print the address to open.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Where sessions work, unless another directory is chosen for them.",
)
@click.option("--version", type=click.Choice(["1", "2"]), help="Speak only this version.")
@rules("Ask, whatever else allows it.")
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Serve over TLS with the certificate in this PEM file.",
)
@click.option(
    "--tls-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The key of the certificate, in PEM.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="With --tls-cert: a name by which browsers reach this server. Others are refused.",
)
@click.option(
    "--behind-proxy",
    metavar="URL",
    help="A proxy that ends TLS is in front of this server, and browsers open this address.",
)
@click.option(
    "--insecure-no-auth",
    is_flag=True,
    help="Let every program and every user of this machine in, as a controller.",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep sessions in this file.  [default: journal/sessions.db in the state directory]",
)
@click.option(
    "--keep",
    metavar="DURATION",
    callback=duration,
    help="Delete sessions in which nothing has happened for so long, as in 90d.",
)
@click.option(
    "--keep-size",
    metavar="SIZE",
    callback=size_in_bytes,
    help="Delete the oldest sessions when all of them need more than this, as in 10G.",
)
@click.option(
    "--idle-after",
    metavar="DURATION",
    callback=duration,
    help="End an agent without work after this time; the next prompt starts it again."
    "  [default: 30m]",
)
@click.option(
    "--link",
    is_flag=False,
    flag_value="controller",
    type=click.Choice(["controller", "observer"]),
    metavar="[ROLE]",
    help="Print an address that lets one more browser into the server that runs, and exit. ROLE is"
    " controller, or observer for someone who may only look.",
)
@token_file
@click.argument(
    "command", nargs=-1, metavar="[NAME | URL | -- COMMAND...]", shell_complete=complete_command
)
def serve(command: tuple[str, ...], dashes: bool, **options: Any) -> None:
    """See and steer sessions in a browser.

    Starts a server on this machine and opens its page. Its sessions are kept in a journal: they
    outlive the server, and go on with the next prompt. NAME is one of `twofold agents`, URL an
    agent that runs already, and COMMAND starts any other; without all of them, the default agent of
    the settings answers, or else the demo agent. Ctrl-C ends the server and every agent that it
    started.
    """
    _check(options)
    output = Output()
    try:
        status = _run(command, dashes, options, output)
    except (TwofoldError, OSError) as error:
        output.report(str(error))
        status = 1
    except KeyboardInterrupt:  # before signals are handled
        status = 130
    sys.exit(status)


def _run(command: tuple[str, ...], dashes: bool, options: dict[str, Any], output: Output) -> int:
    import asyncio

    try:
        from twofold.cli.run_server import print_link, run_server
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _NEEDED:
            raise
        raise NeedsExtra(package) from None
    raise_on_interrupt()
    if options["link"] is not None:
        return print_link(options["port"], options["link"], output)
    return asyncio.run(run_server(_served(command, dashes, options), output))


def _served(command: tuple[str, ...], dashes: bool, options: dict[str, Any]) -> "Served":
    from twofold.cli.run_server import Served
    from twofold.host.agent_choice import choose_agent
    from twofold.host.amounts import parse_duration, parse_size
    from twofold.host.host import Limits
    from twofold.host.settings import load

    settings = load(options["cwd"])
    token = options["token"]
    # it has to exist, and be installed
    choose_agent(command, dashes=dashes, settings=settings, token=token)
    policy_of(settings, options)  # its files have to be readable
    version = options["version"]
    wanted = settings.values.serve
    return Served(
        words=command,
        dashes=dashes,
        token=token,
        cwd=options["cwd"],
        policy=lambda own: policy_of(own, options),
        version=int(version) if version else None,
        address=options["host"],
        port=_first(options["port"], wanted.port, PORT),
        cert=options["tls_cert"],
        key=options["tls_key"],
        names=options["names"],
        proxy=options["behind_proxy"] or "",
        has_access=not options["insecure_no_auth"],
        opens=not options["no_open"] and has_desktop(os.environ),
        home=os.path.expanduser("~"),
        journal=options["journal"] or settings.journal_file,
        keep=_first(options["keep"], wanted.keep and parse_duration(wanted.keep)),
        keep_size=_first(options["keep_size"], wanted.keep_size and parse_size(wanted.keep_size)),
        idle_after=_first(options["idle_after"], parse_duration(wanted.idle_after or IDLE_AFTER)),
        limits=Limits(
            agents=_first(wanted.agents, Limits().agents),
            sessions=_first(wanted.sessions, Limits().sessions),
            queued=_first(wanted.queued, Limits().queued),
        ),
    )


def _first(*values: Any) -> Any:
    """The first value that is given."""
    return next((value for value in values if value is not None), None)


# ---- options that go together --------------------------------------------------------------------


def _check(options: dict[str, Any]) -> None:
    """Refuse what would let others in without TLS, or without a token."""
    cert, key, proxy = options["tls_cert"], options["tls_key"], options["behind_proxy"]
    if (cert is None) != (key is None):
        raise click.UsageError("--tls-cert and --tls-key go together.")
    if options["names"] and cert is None:
        raise click.UsageError("--name needs --tls-cert.")
    if proxy is not None:
        options["behind_proxy"] = _proxy(proxy)
    local = is_local(options["host"])
    if not local and cert is None and proxy is None:
        raise click.UsageError(
            f"Others could reach {options['host']}: it needs --tls-cert and --tls-key, or"
            " --behind-proxy. From another machine, `ssh -L` needs neither."
        )
    if options["insecure_no_auth"] and (not local or proxy is not None):
        raise click.UsageError(
            "--insecure-no-auth is only for an address of this machine, and not behind a proxy."
        )
    for name in options["names"]:
        if not name or any(sign in "/@?#" or sign.isspace() for sign in name):
            raise click.BadParameter(f"{name!r} is no name of a host.", param_hint="'--name'")


def _proxy(url: str) -> str:
    """The address of a proxy, without a slash at its end."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    whole = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username)
    if parts.scheme not in ("https", "http") or not parts.hostname or not whole:
        raise click.BadParameter(
            "it must be the address that browsers open, as in https://agents.example.org.",
            param_hint="'--behind-proxy'",
        )
    if parts.scheme == "http" and not is_local(parts.hostname):
        raise click.BadParameter(
            "it must begin with https://: without TLS others could read the cookie.",
            param_hint="'--behind-proxy'",
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port is not None else ''}"


def is_local(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def has_desktop(environ: Any) -> bool:
    """Whether this process runs on a desktop, so that the user sees a browser it opens."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    if sys.platform == "darwin":
        return True
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
