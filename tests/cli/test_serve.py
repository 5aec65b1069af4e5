"""`twofold serve`: what it prints, who is let in, and what it refuses to start."""

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.commands import PATIENCE, TWOFOLD, twofold
from twofold.cli.serve import has_desktop, is_local

DATA = Path(__file__).parents[1] / "web" / "data"


class Serving:
    """A server as a process."""

    def __init__(self, process: "subprocess.Popen[str]", state: Path) -> None:
        self.process = process
        self.folder = state / "twofold" / "serve"
        assert process.stdout is not None
        self.line = process.stdout.readline()
        found = re.search(r"https?://\S+", self.line)
        assert found is not None, self.line
        self.url = found[0]

    def get(self, path: str, cookie: str = "") -> tuple[int, http.client.HTTPMessage]:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE)
        connection.request("GET", path, headers={"Cookie": cookie})
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.status, response.headers

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Send a signal; returns the exit status and what was written to standard error."""
        self.process.send_signal(number)
        _, error = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, error


@contextmanager
def serving(
    tmp_path: Path, *arguments: str, env: dict[str, str] | None = None
) -> Iterator[Serving]:
    """A server with a state directory of its own, on any port that is free."""
    state = tmp_path / "state"
    environ = {**os.environ, "XDG_STATE_HOME": str(state), **(env or {})}
    command = [*TWOFOLD, "serve", "--port", "0", *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        cwd=tmp_path,
        encoding="utf-8",
    )
    with process:
        try:
            yield Serving(process, state)
        finally:
            process.kill()


def linked(tmp_path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    command = [*TWOFOLD, "serve", "--link", *arguments]
    return subprocess.run(
        command, env=environ, capture_output=True, encoding="utf-8", timeout=PATIENCE, check=False
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_printed_address_lets_one_browser_in_and_a_signal_ends_it(
    number: int, tmp_path: Path
) -> None:
    with serving(tmp_path, "--no-open") as server:
        assert server.line.startswith("Open http://127.0.0.1:")
        assert server.line.endswith(" Ctrl-C ends Twofold.\n")
        path = urlsplit(server.url).path
        status, headers = server.get(path)
        assert status == 200
        cookie = str(headers["Set-Cookie"]).partition(";")[0]
        assert server.get("/static/x", cookie)[0] == 404
        assert server.get("/static/x")[0] == 401
        assert server.get(path)[0] == 401
        assert {each.name for each in server.folder.iterdir()} == {
            *("token", "observer-token", f"server-{urlsplit(server.url).port}.json")
        }
        for each in server.folder.iterdir():
            assert stat.S_IMODE(each.stat().st_mode) == 0o600
        assert server.end(number) == (0, "")
        assert {each.name for each in server.folder.iterdir()} == {"token", "observer-token"}


def test_another_browser_is_let_in_by_a_link(tmp_path: Path) -> None:
    assert "No server of yours runs" in linked(tmp_path).stderr
    with serving(tmp_path, "--no-open") as server:
        port = urlsplit(server.url).port
        for role in ([], ["observer"]):
            done = linked(tmp_path, *role)
            assert (done.returncode, done.stderr) == (0, "")
            status, headers = server.get(urlsplit(done.stdout.strip()).path)
            assert status == 200
            assert str(headers["Set-Cookie"]).startswith(
                f"twofold-{port}={role[0] if role else 'controller'}."
            )
        wrong = linked(tmp_path, "--port", "1")
        assert wrong.returncode == 1
        assert "runs on port 1" in wrong.stderr
        server.end()
    assert "No server of yours runs" in linked(tmp_path).stderr


def test_a_browser_is_opened_by_a_file_that_only_the_user_can_read(tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    copy = tmp_path / "copy.html"
    browser.write_text(
        f'#!/bin/sh\nfile="${{1#file://}}"\nstat -c %a "$file" > {tmp_path}/mode\n'
        f'cp "$file" {copy}.part && mv {copy}.part {copy}\n'
    )
    browser.chmod(0o755)
    env = {"DISPLAY": ":0", "BROWSER": f"{browser} %s"}
    with serving(tmp_path, env={**env, "SSH_CONNECTION": "", "SSH_TTY": ""}) as server:
        assert "opens in your browser" in server.line
        until = time.monotonic() + PATIENCE
        while not copy.exists() and time.monotonic() < until:
            time.sleep(0.01)
        found = re.search(r"url=(http://[^\"]+)", copy.read_text())
        assert found is not None
        assert (tmp_path / "mode").read_text().strip() == "600"
        assert "/enter/" not in server.line
        assert server.get(urlsplit(found[1]).path)[0] == 200
        server.end()
        assert not list(server.folder.glob("*.html"))


def test_the_token_never_reaches_the_agent(tmp_path: Path) -> None:
    script = (
        "import os, json; f = open('seen.part', 'w'); "
        "words = open('/proc/self/cmdline').read(); "
        "json.dump([dict(os.environ), words, os.listdir('/proc/self/fd')], f); "
        "f.close(); os.rename('seen.part', 'seen'); input()"
    )
    with serving(tmp_path, "--no-open", "--", sys.executable, "-c", script) as server:
        seen = tmp_path / "seen"
        until = time.monotonic() + PATIENCE
        while not seen.exists() and time.monotonic() < until:
            time.sleep(0.01)
        text = seen.read_text()
        for name in ("token", "observer-token"):
            assert (server.folder / name).read_text().strip() not in text
        assert len(json.loads(text)[2]) <= 5, "no file of the server is open in the agent"
        server.end()


def test_without_access_everyone_on_this_machine_comes_in(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-open", "--insecure-no-auth") as server:
        assert "for everyone on this machine" in server.line
        assert server.get("/static/x")[0] == 404
        server.end()


def test_over_tls_the_address_has_the_name(tmp_path: Path) -> None:
    tls = ["--tls-cert", str(DATA / "cert.pem"), "--tls-key", str(DATA / "key.pem")]
    with serving(tmp_path, "--no-open", *tls, "--name", "box.example") as server:
        assert server.url.startswith("https://box.example:")
        done = linked(tmp_path)
        assert done.stdout.startswith("https://box.example:")
        server.end()


# ---- what is not started -------------------------------------------------------------------------

CERT = ["--tls-cert", str(DATA / "cert.pem")]
KEY = ["--tls-key", str(DATA / "key.pem")]
REFUSED: dict[str, tuple[list[str], str]] = {
    "others could reach it": (["--host", "0.0.0.0"], "needs --tls-cert"),
    "others could reach it, v6": (["--host", "::"], "needs --tls-cert"),
    "a name": (["--host", "box.example"], "needs --tls-cert"),
    "no key": (CERT, "go together"),
    "no certificate": (KEY, "go together"),
    "a name without tls": (["--name", "x"], "--name needs"),
    "no name": ([*CERT, *KEY, "--name", "a/b"], "no name of a host"),
    "no auth for others": ([*CERT, *KEY, "--host", "0.0.0.0", "--insecure-no-auth"], "only for"),
    "no auth behind a proxy": (
        ["--behind-proxy", "https://x.example", "--insecure-no-auth"],
        "not behind a proxy",
    ),
    "a proxy without tls": (["--behind-proxy", "http://x.example"], "https://"),
    "a proxy with a path": (["--behind-proxy", "https://x.example/a"], "address that browsers"),
    "no proxy": (["--behind-proxy", "x.example"], "address that browsers"),
    "a bad port of a proxy": (["--behind-proxy", "https://x:y"], "address that browsers"),
    "no port": (["--port", "70000"], "70000"),
    "no role": (["--link", "admin"], "admin"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_let_others_in_is_wrong_usage(name: str) -> None:
    arguments, words = REFUSED[name]
    result = twofold("serve", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody-knows-me"], "nobody-knows-me"),
        (["claude"], "To install it: npm install"),
        (["--allow", "nonsense:"], "nonsense"),
        ([*CERT, "--tls-key", str(DATA / "cert.pem")], "no certificate and its key"),
    ],
)
def test_what_cannot_be_started_is_named_in_one_line(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    result = twofold("serve", "--port", "0", "--no-open", *arguments)
    assert result.exit_code in (1, 2)
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_port_in_use_is_named_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*TWOFOLD, "serve", "--no-open", "--port", port],
            env=environ,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Port {port} is in use already.")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "websockets"])
def test_without_the_extra_the_command_says_how_to_get_it(package: str) -> None:
    script = f"import sys; sys.modules[{package!r}] = None; from twofold.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "serve", "--no-open"],
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"The page needs the package {package}. Install it with: pip install 'twofold[serve]'\n"
    )


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"DISPLAY": ":0"}, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True),
        ({}, sys.platform == "darwin"),
        ({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "1 2 3 4"}, False),
    ],
)
def test_a_browser_is_opened_only_where_it_is_seen(environ: dict[str, Any], expected: bool) -> None:
    assert has_desktop(environ) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.0.0.2", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "box.example", "127.0.0.1.nip.io")],
)
def test_only_addresses_of_this_machine_are_local(host: str, expected: bool) -> None:
    assert is_local(host) is expected
