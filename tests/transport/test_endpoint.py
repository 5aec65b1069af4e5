"""URLs and tokens of agents that run elsewhere, and the words for what goes wrong."""

import errno
import socket
import ssl
from collections.abc import Callable

import pytest

from twofold.transport.endpoint import BadUrl, Endpoint, is_url, why_lost

SECRET = "sesame-9"


@pytest.mark.parametrize("url", ["ws://h", "wss://h/acp", "http://h:1", "HTTPS://h", "ws://"])
def test_a_text_with_one_of_the_four_schemes_is_a_url(url: str) -> None:
    assert is_url(url)


@pytest.mark.parametrize("text", ["claude", "ftp://h", "wss:/h", "./ws://h", " ws://h", b"ws://h"])
def test_anything_else_is_none(text: object) -> None:
    assert not is_url(text)


@pytest.mark.parametrize(
    ("url", "websocket", "http"),
    [
        ("ws://h", "ws://h/acp", "http://h/acp"),
        ("https://h:8443/", "wss://h:8443/acp", "https://h:8443/acp"),
        ("WSS://h/a/b?c=d#e", "wss://h/a/b?c=d", "https://h/a/b?c=d"),
        ("http://[::1]:9/x", "ws://[::1]:9/x", "http://[::1]:9/x"),
    ],
)
def test_a_url_is_one_of_a_websocket_and_one_of_http(url: str, websocket: str, http: str) -> None:
    endpoint = Endpoint(url)
    assert (endpoint.websocket_url, endpoint.http_url) == (websocket, http)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("claude", "begins with"),
        ("wss://", "names no host"),
        ("wss://h:70000/acp", "Port"),
        ("wss://user:pass@h/acp", "ends in logs"),
        ("wss://h/a b", "blank"),
        ("wss://h/\x1b[31m", "control character"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(BadUrl, match=why) as caught:
        Endpoint(url)
    assert "pass" not in str(caught.value).replace("password", "").replace("Pass a", "")
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ümlaut", "x\r\nHost: evil"])
def test_a_token_that_no_header_can_hold_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(BadUrl) as caught:
        Endpoint("wss://h/acp", token)
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize("url", ["ws://example.com/acp", "http://10.0.0.1/acp"])
def test_a_token_is_not_sent_where_it_could_be_read_on_the_way(url: str) -> None:
    with pytest.raises(BadUrl, match="could be read on the way"):
        Endpoint(url, SECRET)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "[::1]", "a.localhost"])
def test_this_machine_needs_no_tls_for_a_token(host: str) -> None:
    endpoint = Endpoint(f"ws://{host}:1/acp", SECRET)
    assert endpoint.loopback
    assert endpoint.headers == {"Authorization": f"Bearer {SECRET}"}


def test_neither_a_token_nor_a_query_is_in_any_text() -> None:
    endpoint = Endpoint(f"wss://h/acp?key={SECRET}", SECRET)
    texts = [repr(endpoint), endpoint.shown, str(endpoint.refused(401)), str(endpoint.refused(404))]
    texts.append(str(endpoint.not_reached(ConnectionRefusedError())))
    assert all(SECRET not in text for text in texts)
    assert endpoint.shown == "wss://h/acp?…"


STATUSES: list[tuple[int, str]] = [
    (401, "does not accept the token"),
    (403, "refuses access"),
    (404, "nothing at /acp"),
    (413, "too large"),
    (307, "redirects to"),
    (405, "not an ACP endpoint"),
    (502, "the server failed"),
]


@pytest.mark.parametrize(("status", "words"), STATUSES)
def test_a_status_is_explained(status: int, words: str) -> None:
    error = Endpoint("wss://h/acp", SECRET).refused(status, "<html>\x1b[2J", "https://evil/\x07")
    assert words in str(error)
    assert error.status == status
    assert "\x1b" not in str(error)
    assert "\x07" not in str(error)


def test_a_server_that_requires_a_token_gets_other_advice_than_one_that_refuses_it() -> None:
    assert "--token-file" in str(Endpoint("wss://h").refused(401))


def untrusted() -> ssl.SSLError:
    error = ssl.SSLCertVerificationError(1, "failed")
    error.verify_message = "self-signed certificate"
    return error


ERRORS: list[tuple[Callable[[], BaseException], str]] = [
    (ConnectionRefusedError, "nothing listens on port 443 of h"),
    (lambda: OSError("Multiple exceptions: [Errno 111] Connect call failed, "), "nothing listens"),
    (lambda: socket.gaierror(-2, "Name or service not known"), "the host h is unknown"),
    (untrusted, "not trusted: self-signed certificate"),
    (lambda: ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER]"), "TLS failed"),
    (TimeoutError, "did not answer within 10 seconds"),
    (lambda: ConnectionResetError(errno.ECONNRESET, "reset"), "closed the connection at once"),
    (lambda: OSError(errno.ENETUNREACH, "Network is unreachable"), "Network is unreachable."),
    (lambda: RuntimeError("odd"), "odd."),
]


@pytest.mark.parametrize(("make", "words"), ERRORS)
def test_why_there_is_no_connection_is_explained(
    make: Callable[[], BaseException], words: str
) -> None:
    wrapped = RuntimeError("of a library")
    wrapped.__cause__ = make()
    for error in (make(), wrapped):
        if not (error is wrapped and words == "odd."):
            assert words in str(Endpoint("wss://h").not_reached(error))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionResetError(), "broke it off"),
        (TimeoutError(), "no longer answers"),
        (OSError(errno.ENETDOWN, "Network is down"), "Network is down."),
        (ssl.SSLError(1, "[SSL] x"), "TLS failed"),
        (ValueError(), "ValueError."),
    ],
)
def test_why_a_connection_was_lost_is_explained(error: Exception, words: str) -> None:
    assert words in why_lost(error)
