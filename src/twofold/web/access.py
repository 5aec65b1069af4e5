"""Who may come in: tokens, one-time codes, cookies, and which names and origins are ours.

Decides and remembers; nothing here waits, and the clock is passed in. Only `read_tokens` touches
files. What is sent by a browser or a program is never part of an error.

A program shows a token (`Authorization: Bearer`). A browser is let in by a one-time code, which
becomes a cookie: a random name, signed with the token of its role, so that a new token ends it.
"""

import hmac
import os
import re
import secrets
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from twofold.errors import LocalError

Role: TypeAlias = Literal["controller", "observer"]
"""A controller may prompt, answer and cancel; an observer sees what it sees."""
ROLES: Final[tuple[Role, ...]] = get_args(Role)
Way: TypeAlias = Literal["read", "change", "upgrade"]
"""What a request is for: to read, to change something, or to open a socket."""

TOKEN_BYTES: Final = 32
"""256 bits, of tokens and of one-time codes."""
CODE_SECONDS: Final = 600
"""How long a one-time code can be used."""
MOST_CODES: Final = 32
"""One-time codes that wait to be used; a further one replaces the oldest."""
COOKIE_SECONDS: Final = 30 * 24 * 3600
MOST_GUESTS: Final = 1_000
"""Browsers whose names are remembered."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob:; media-src blob:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""What every response has. No origin but ours is ever allowed by a header."""


# ---- tokens ------------------------------------------------------------------------------------


class TokenNotKept(LocalError):
    """A token cannot be read from its file or written to it."""


class Tokens(NamedTuple):
    """The secrets of both roles."""

    controller: str
    observer: str

    @classmethod
    def new(cls) -> "Tokens":
        """Tokens that nobody has."""
        return cls(secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES))


_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def token_file(folder: Path, role: Role) -> Path:
    """Where the token of a role is."""
    return folder / ("token" if role == "controller" else "observer-token")


def read_tokens(folder: Path) -> Tokens:
    """The tokens in their files, which only their owner can read; those that are missing are made.

    Raises:
        TokenNotKept: A file cannot be used, or others could read it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Tokens(*[_read_token(token_file(folder, role)) for role in ROLES])
    except OSError as error:
        reason = error.strerror or str(error)
        raise TokenNotKept(
            f"The tokens cannot be kept in {folder}: {reason}."
            " Make it a directory that you can write to, or set XDG_STATE_HOME to another one."
        ) from None


def _read_token(path: Path) -> str:
    token = secrets.token_urlsafe(TOKEN_BYTES)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _kept_token(path)
    with open(fd, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def _kept_token(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, encoding="utf-8", errors="replace") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise TokenNotKept(f"{path} is not a file of yours. Delete it, and start again.")
        if found.st_mode & 0o077:
            raise TokenNotKept(
                f"Others can read {path}. Delete it, and start again: a new token is made."
            )
        token = file.read(200).strip()
    if _TOKEN.fullmatch(token) is None:
        raise TokenNotKept(f"{path} holds no token. Delete it, and start again.")
    return token


# ---- names and origins -------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where the server is, as browsers write it."""

    hosts: frozenset[str]
    """Values of `Host` that are ours, in lower case."""
    origins: frozenset[str]
    """Values of `Origin` that are ours."""
    url: str
    """The address to show, without a slash at its end."""
    port: int
    """The port that it is bound to: two servers on a machine have cookies of different names."""

    @property
    def secure(self) -> bool:
        """Whether browsers come over TLS."""
        return self.url.startswith("https:")

    @classmethod
    def of(cls, scheme: str, names: Iterable[str], port: int, *, public: str = "") -> "Place":
        """A server that is reached by these names, the first of which is shown.

        Args:
            scheme: `http` or `https`.
            names: Names and addresses; an IPv6 address in brackets.
            port: The port.
            public: The address that a proxy in front of it has, if there is one.
        """
        default = {"http": 80, "https": 443}[scheme]
        hosts: dict[str, None] = {}
        for name in names:
            hosts |= {f"{name.lower()}:{port}": None}
            hosts |= {name.lower(): None} if port == default else {}
        origins = {f"{scheme}://{host}" for host in hosts}
        url = f"{scheme}://{next(iter(hosts))}"
        if public:
            shown, _, outer = public.partition("://")
            for_proxy = {outer.lower(): None}
            standard = {"http": ":80", "https": ":443"}[shown]
            if ":" not in outer.rpartition("]")[2]:
                for_proxy |= {outer.lower() + standard: None}
            hosts |= for_proxy
            origins |= {f"{shown}://{host}" for host in for_proxy}
            url = public
        return cls(frozenset(hosts), frozenset(origins), url, port)


class Refusal(NamedTuple):
    """Why a request is refused: the status of the response, and the reason for the user."""

    status: HTTPStatus
    reason: str


class Guest(NamedTuple):
    """Who sends a request."""

    role: Role
    token: str
    """The token that let it in: what is open ends with it."""
    name: str
    """What others are shown."""


# ---- access ------------------------------------------------------------------------------------


@dataclass
class Access:
    """Decides about every request.

    Args:
        place: Where the server is.
        tokens: The secrets; None to let everyone in who reaches it, as a controller.
        clock: Unix time in seconds.
    """

    place: Place
    tokens: Tokens | None
    clock: Callable[[], float]
    _codes: OrderedDict[str, tuple[Role, float]] = field(default_factory=OrderedDict)
    _names: OrderedDict[str, str] = field(default_factory=OrderedDict)

    # ---- requests

    def refusal(self, host: str, origin: str | None) -> Refusal | None:
        """Why a request is not for us: its `Host`, or the page that sent it."""
        if host.lower() not in self.place.hosts:
            return Refusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"This server has another name. Open {self.place.url}/ instead.",
            )
        if origin is not None and origin.lower() not in self.place.origins:
            return Refusal(
                HTTPStatus.FORBIDDEN, "A page of another server may not send requests here."
            )
        return None

    def guest(
        self,
        way: Way,
        *,
        origin: str | None,
        cookies: Iterable[str] = (),
        authorization: str | None = None,
        agent: str = "",
    ) -> Guest | Refusal:
        """Who sends a request that is for us.

        Args:
            way: What it is for.
            origin: The page that sent it, which is one of ours, if a browser named it.
            cookies: The headers `Cookie`.
            authorization: The header `Authorization`.
            agent: The header `User-Agent`.
        """
        if self.tokens is None:
            return Guest("controller", "", self._name(agent, agent))
        if authorization is not None:
            return self._bearer(authorization)
        for cookie in self._own(cookies):
            found = self._signed(cookie)
            if found is None:
                continue
            if way != "read" and origin is None:
                return Refusal(
                    HTTPStatus.FORBIDDEN,
                    "A request with a cookie must name the page that sent it. Programs show"
                    " a token: Authorization: Bearer TOKEN.",
                )
            role, token = found
            return Guest(role, token, self._name(cookie, agent))
        return Refusal(
            HTTPStatus.UNAUTHORIZED,
            "You are not let in yet, or no longer. Open the address that `twofold serve` printed,"
            " or run `twofold serve --link` for a new one.",
        )

    def is_valid(self, guest: Guest) -> bool:
        """Whether the token that let a guest in is still one of ours."""
        return self.tokens is None or guest.token in self.tokens

    def replace(self, tokens: Tokens) -> None:
        """Take other tokens: cookies, codes and guests of those that are gone are worth nothing."""
        before, self.tokens = self.tokens, tokens
        for role in ROLES:
            if before is None or getattr(before, role) != getattr(tokens, role):
                for code in [code for code, (own, _) in self._codes.items() if own == role]:
                    del self._codes[code]

    def _bearer(self, authorization: str) -> Guest | Refusal:
        scheme, _, shown = authorization.partition(" ")
        assert self.tokens is not None
        found: Guest | None = None
        for role in ROLES:  # always both, so that the time says nothing
            token = getattr(self.tokens, role)
            if _equal(shown.strip(), token) and scheme.lower() == "bearer":
                found = Guest(role, token, "a program")
        return found or Refusal(HTTPStatus.UNAUTHORIZED, "This token is not, or no longer, valid.")

    # ---- one-time codes

    def new_code(self, role: Role) -> str:
        """A code that lets one browser in, once."""
        code = secrets.token_urlsafe(TOKEN_BYTES)
        self._codes[code] = role, self.clock() + CODE_SECONDS
        while len(self._codes) > MOST_CODES:
            self._codes.popitem(last=False)
        return code

    def link(self, role: Role) -> str:
        """The address that lets one browser in, once."""
        return f"{self.place.url}/enter/{self.new_code(role)}"

    def use_code(self, code: str) -> Role | None:
        """The role that a code gives; None if it is unknown, used or too old. It is used now."""
        found: Role | None = None
        now = self.clock()
        for known, (role, until) in list(self._codes.items()):
            if until < now:
                del self._codes[known]
            elif _equal(known, code):
                del self._codes[known]
                found = role
        return found

    # ---- cookies

    @property
    def cookie_name(self) -> str:
        """The name of our cookie."""
        # with the prefix a browser takes it from this host only, over TLS
        return f"{'__Host-' if self.place.secure else ''}twofold-{self.place.port}"

    def new_cookie(self, role: Role) -> str:
        """The value of `Set-Cookie` for a browser that is let in."""
        assert self.tokens is not None
        words = f"{role}.{int(self.clock())}.{secrets.token_urlsafe(16)}"
        value = f"{words}.{self._signature(words, getattr(self.tokens, role))}"
        secure = "; Secure" if self.place.secure else ""
        return (
            f"{self.cookie_name}={value}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly;"
            f" SameSite=Strict{secure}"
        )

    def _own(self, cookies: Iterable[str]) -> Iterable[str]:
        for header in cookies:
            for each in header.split(";"):
                name, _, value = each.strip().partition("=")
                if name == self.cookie_name:
                    yield value

    def _signed(self, cookie: str) -> tuple[Role, str] | None:
        """The role and the token that a cookie was made with."""
        words, _, signature = cookie.rpartition(".")
        named, _, rest = words.partition(".")
        made = rest.partition(".")[0]
        assert self.tokens is not None
        for role in ROLES:
            token = getattr(self.tokens, role)
            if role != named or not _equal(signature, self._signature(words, token)):
                continue
            age = self.clock() - int(made)
            return (role, token) if age <= COOKIE_SECONDS else None
        return None

    def _signature(self, words: str, token: str) -> str:
        data = f"{self.cookie_name} {words}".encode(errors="replace")
        return hmac.new(token.encode(), data, sha256).hexdigest()

    # ---- names

    def _name(self, identity: str, agent: str) -> str:
        """What a browser is called; two of the same kind have a number."""
        identity = identity[-_IDENTITY:]
        name = self._names.get(identity) or self._new_name(browser_name(agent))
        self._names[identity] = name
        self._names.move_to_end(identity)
        if len(self._names) > MOST_GUESTS:
            self._names.popitem(last=False)
        return name

    def _new_name(self, kind: str) -> str:
        taken = set(self._names.values())
        others = (f"{kind} {number}" for number in range(2, MOST_GUESTS + 2))
        return next(name for name in (kind, *others) if name not in taken)


_IDENTITY: Final = 200  # so much of what a browser is known by is kept


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))


_BROWSERS: Final = (
    *(("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome")),
    *(("CriOS/", "Chrome"), ("FxiOS/", "Firefox"), ("Safari/", "Safari")),
)
_SYSTEMS: Final = (
    *(("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows")),
    *(("Mac OS X", "Mac"), ("CrOS", "ChromeOS"), ("Linux", "Linux")),
)


def browser_name(agent: str) -> str:
    """A browser in words of ours, by the header `User-Agent`: `Firefox on Linux`."""
    browser = next((name for sign, name in _BROWSERS if sign in agent), "a browser")
    system = next((f" on {name}" for sign, name in _SYSTEMS if sign in agent), "")
    return browser + system
