"""The error tree, by blame.

`PeerError`: the other side sent something we cannot use. `LocalError`: this program asked for
something that cannot be done. An error holds its facts; the text says whose fault it is and what
to do. Nothing here knows the protocol.
"""


class TwofoldError(Exception):
    """Everything Twofold raises on purpose."""


class PeerError(TwofoldError):
    """The peer sent something that breaks the protocol."""


class LocalError(TwofoldError):
    """This program asked for something that cannot be done."""


class ConnectionEnded(PeerError):
    """The peer is gone, and with it the answer to whatever was asked."""


class ConnectionClosed(LocalError):
    """The connection was closed by this program."""


class NoAnswer(PeerError):
    """The peer did not answer in time."""

    def __init__(self, who: str, method: str, seconds: float) -> None:
        super().__init__(f"The {who} did not answer {method} within {seconds:g} seconds.")
        self.method = method
        self.seconds = seconds


class BadAnswer(PeerError):
    """The peer answered with something that the protocol does not allow there."""

    def __init__(self, who: str, method: str, reason: str) -> None:
        super().__init__(f"The {who} answered {method} with something else than a result: {reason}")
        self.method = method
        self.reason = reason


class NotSupported(LocalError):
    """This program asked for something that the peer said it cannot do."""
