"""Who may come in: a table of requests, and what is never accepted."""

import os
import stat
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.web import access
from twofold.web.access import (
    CODE_SECONDS,
    COOKIE_SECONDS,
    MOST_CODES,
    MOST_GUESTS,
    POLICY,
    Access,
    Guest,
    Place,
    Refusal,
    TokenNotKept,
    Tokens,
    browser_name,
    read_tokens,
    token_file,
)

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0"
LOCAL = Place.of("http", ["127.0.0.1", "localhost"], 8700)
OWN = "http://127.0.0.1:8700"


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def door(clock: Clock) -> Access:
    return Access(LOCAL, Tokens.new(), clock)


def cookie_of(door: Access, role: access.Role = "controller") -> str:
    """What a browser sends that was let in."""
    return door.new_cookie(role).partition(";")[0]


# ---- names and origins ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:8700", None, None),
        ("localhost:8700", "http://localhost:8700", None),
        ("LOCALHOST:8700", "http://127.0.0.1:8700", None),
        ("127.0.0.1:8701", None, 421),
        ("127.0.0.1", None, 421),
        ("", None, 421),
        ("evil.example:8700", None, 421),
        ("127.0.0.1:8700.evil.example", None, 421),
        ("127.0.0.1.nip.io:8700", None, 421),
        ("[::1]:8700", None, 421),
        ("127.0.0.1:8700", "http://evil.example", 403),
        ("127.0.0.1:8700", "http://127.0.0.1:3000", 403),
        ("127.0.0.1:8700", "https://127.0.0.1:8700", 403),
        ("127.0.0.1:8700", "null", 403),
        ("127.0.0.1:8700", "", 403),
        ("127.0.0.1:8700", "file://", 403),
    ],
)
def test_only_our_names_and_our_pages_are_ours(
    door: Access, host: str, origin: str | None, status: int | None
) -> None:
    refusal = door.refusal(host, origin)
    assert (refusal and refusal.status) == status
    if refusal is not None and host:
        assert "evil" not in refusal.reason


@pytest.mark.parametrize(
    ("place", "url", "hosts"),
    [
        (Place.of("http", ["[::1]"], 8700), "http://[::1]:8700", {"[::1]:8700"}),
        (
            Place.of("https", ["box.example"], 443),
            "https://box.example:443",
            {"box.example", "box.example:443"},
        ),
        (
            Place.of("http", ["127.0.0.1"], 8700, public="https://agents.example"),
            "https://agents.example",
            {"127.0.0.1:8700", "agents.example", "agents.example:443"},
        ),
        (
            Place.of("http", ["127.0.0.1"], 8700, public="https://agents.example:8443"),
            "https://agents.example:8443",
            {"127.0.0.1:8700", "agents.example:8443"},
        ),
    ],
)
def test_the_names_of_a_server_follow_from_where_it_is(
    place: Place, url: str, hosts: set[str]
) -> None:
    assert place.url == url
    assert place.hosts == hosts
    assert {origin.partition("://")[2] for origin in place.origins} == hosts


# ---- who it is -----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", access.ROLES)
@pytest.mark.parametrize("way", ["read", "change", "upgrade"])
def test_a_token_lets_a_program_in(door: Access, role: access.Role, way: access.Way) -> None:
    assert door.tokens is not None
    token = getattr(door.tokens, role)
    found = door.guest(way, origin=None, authorization=f"Bearer {token}")
    assert found == Guest(role, token, "a program")


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Bearer x", "Basic TOKEN", "TOKEN", "Bearer TOKENx", "Bearer größe"],
)
def test_another_authorization_lets_nobody_in(door: Access, authorization: str) -> None:
    assert door.tokens is not None
    shown = authorization.replace("TOKEN", door.tokens.controller)
    cookies = [cookie_of(door)]
    found = door.guest("read", origin=None, cookies=cookies, authorization=shown)
    assert isinstance(found, Refusal)
    assert found.status == HTTPStatus.UNAUTHORIZED
    assert door.tokens.controller not in found.reason


@pytest.mark.parametrize(
    ("way", "origin", "status"),
    [
        ("read", None, None),
        ("read", OWN, None),
        ("change", OWN, None),
        ("upgrade", OWN, None),
        ("change", None, 403),
        ("upgrade", None, 403),
    ],
)
def test_a_cookie_alone_changes_nothing_without_the_page_that_sent_it(
    door: Access, way: access.Way, origin: str | None, status: int | None
) -> None:
    cookies = ["other=1; twofold-1=x", f"a=b; {cookie_of(door, 'observer')}"]
    found = door.guest(way, origin=origin, cookies=cookies, agent=FIREFOX)
    if status is None:
        assert isinstance(found, Guest)
        assert (found.role, found.name) == ("observer", "Firefox on Linux")
    else:
        assert isinstance(found, Refusal)
        assert found.status == status


def test_a_cookie_is_for_no_script_and_no_other_site(door: Access) -> None:
    attributes = door.new_cookie("controller").split("; ")[1:]
    assert attributes == ["Path=/", f"Max-Age={COOKIE_SECONDS}", "HttpOnly", "SameSite=Strict"]
    door.place = Place.of("https", ["box.example"], 8700)
    assert door.new_cookie("controller").startswith("__Host-twofold-8700=")
    assert door.new_cookie("controller").endswith("; Secure")


@given(st.integers(0, 10_000), st.characters(codec="ascii", exclude_characters=";"))
def test_a_changed_cookie_lets_nobody_in(number: int, sign: str) -> None:
    door = Access(LOCAL, Tokens.new(), Clock())
    name, _, value = cookie_of(door, "observer").partition("=")
    place = number % len(value)
    sign = sign if sign.strip() and sign != value[place] else "~"
    for changed in (
        value[:place] + sign + value[place + 1 :],
        value[:place],
        value.replace("observer", "controller"),
    ):
        found = door.guest("read", origin=None, cookies=[f"{name}={changed}"])
        assert isinstance(found, Refusal)


def test_a_cookie_ends_after_a_while(door: Access, clock: Clock) -> None:
    cookies = [cookie_of(door)]
    clock.now += COOKIE_SECONDS - 1
    assert isinstance(door.guest("read", origin=None, cookies=cookies), Guest)
    clock.now += 2
    assert isinstance(door.guest("read", origin=None, cookies=cookies), Refusal)


def test_a_cookie_of_another_server_on_this_machine_lets_nobody_in(door: Access) -> None:
    other = Access(Place.of("http", ["127.0.0.1"], 8701), door.tokens, door.clock)
    value = cookie_of(other).partition("=")[2]
    cookies = [cookie_of(other), f"{door.cookie_name}={value}"]
    assert isinstance(door.guest("read", origin=None, cookies=cookies), Refusal)


def test_with_another_token_nothing_of_the_old_one_counts(door: Access) -> None:
    assert door.tokens is not None
    cookies, codes = [cookie_of(door)], {role: door.new_code(role) for role in access.ROLES}
    controller = door.guest("read", origin=None, cookies=cookies)
    observer = door.guest("read", origin=None, cookies=[cookie_of(door, "observer")])
    assert isinstance(controller, Guest)
    assert isinstance(observer, Guest)
    door.replace(Tokens(Tokens.new().controller, door.tokens.observer))
    assert not door.is_valid(controller)
    assert door.is_valid(observer)
    assert isinstance(door.guest("read", origin=None, cookies=cookies), Refusal)
    assert door.use_code(codes["controller"]) is None
    assert door.use_code(codes["observer"]) == "observer"


def test_without_tokens_everyone_who_reaches_it_is_a_controller(clock: Clock) -> None:
    door = Access(LOCAL, None, clock)
    found = door.guest("change", origin=None, agent=FIREFOX)
    assert isinstance(found, Guest)
    assert found.role == "controller"
    assert door.is_valid(found)
    assert door.refusal("evil.example", None) is not None


# ---- one-time codes ------------------------------------------------------------------------------


def test_a_code_lets_one_browser_in_once(door: Access) -> None:
    code = door.new_code("observer")
    assert len(code) == 43
    assert door.use_code(code[:-1]) is None
    assert door.use_code(code) == "observer"
    assert door.use_code(code) is None


def test_a_code_that_is_too_old_lets_nobody_in(door: Access, clock: Clock) -> None:
    code = door.new_code("controller")
    clock.now += CODE_SECONDS + 1
    assert door.use_code(code) is None


def test_codes_that_nobody_uses_are_bounded(door: Access) -> None:
    codes = [door.new_code("controller") for _ in range(MOST_CODES + 1)]
    assert door.use_code(codes[0]) is None
    assert door.use_code(codes[1]) == "controller"


def test_a_link_holds_a_code_and_no_token(door: Access) -> None:
    assert door.tokens is not None
    link = door.link("controller")
    assert link.startswith(f"{OWN}/enter/")
    assert door.use_code(link.rpartition("/")[2]) == "controller"
    assert not any(token in link for token in door.tokens)


# ---- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        (
            "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/150.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) Version/26.0 Safari/604.1",
            "Safari on iPhone",
        ),
        ("", "a browser"),
        ("<script>\x1b[31m", "a browser"),
    ],
)
def test_a_browser_has_a_name_in_our_words(agent: str, name: str) -> None:
    assert browser_name(agent) == name


def test_two_browsers_of_the_same_kind_have_different_names(door: Access) -> None:
    names = []
    for cookie in (first := cookie_of(door), cookie_of(door), first):
        found = door.guest("read", origin=None, cookies=[cookie], agent=FIREFOX)
        assert isinstance(found, Guest)
        names.append(found.name)
    assert names == ["Firefox on Linux", "Firefox on Linux 2", "Firefox on Linux"]


def test_names_of_browsers_are_bounded(clock: Clock) -> None:
    door = Access(LOCAL, None, clock)
    for number in range(MOST_GUESTS + 5):
        door.guest("read", origin=None, agent=f"{number} {'x' * 10_000}")
    assert len(door._names) <= MOST_GUESTS
    assert all(len(identity) <= 200 for identity in door._names)


# ---- files ---------------------------------------------------------------------------------------


def test_tokens_are_made_once_and_only_their_owner_can_read_them(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "serve"
    tokens = read_tokens(folder)
    assert read_tokens(folder) == tokens
    assert tokens.controller != tokens.observer
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    for role in access.ROLES:
        path = token_file(folder, role)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert path.read_text().strip() == getattr(tokens, role)


def test_a_token_that_was_deleted_is_another_one_afterwards(tmp_path: Path) -> None:
    before = read_tokens(tmp_path)
    token_file(tmp_path, "controller").unlink()
    after = read_tokens(tmp_path)
    assert after.controller != before.controller
    assert after.observer == before.observer


def _link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


BAD_FILES: dict[str, Any] = {
    "is a directory": lambda path: path.mkdir(mode=0o700),
    "others can read": lambda path: (path.write_text("x" * 43), path.chmod(0o644)),
    "no token": lambda path: (path.write_text("secret"), path.chmod(0o600)),
    "empty": lambda path: (path.write_text(""), path.chmod(0o600)),
    "a link": _link,
    "a pipe": lambda path: os.mkfifo(path, 0o600),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_private_token_is_refused_in_words(name: str, tmp_path: Path) -> None:
    BAD_FILES[name](token_file(tmp_path, "controller"))
    with pytest.raises(TokenNotKept) as raised:
        read_tokens(tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_directory_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(TokenNotKept, match=r"Make it a directory|XDG_STATE_HOME"):
        read_tokens(blocked / "serve")


def test_the_policy_is_the_one_of_the_design() -> None:
    assert POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src"
        " 'self' blob:; media-src blob:; frame-ancestors 'none'; base-uri 'none'; form-action"
        " 'none'; require-trusted-types-for 'script'"
    )
