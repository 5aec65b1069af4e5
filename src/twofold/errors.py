"""The roots of the error tree, by blame, and the errors of any connection.

`PeerError`: the other side sent something we cannot use. `LocalError`: this program asked for
something that cannot be done. Every other public error is a subclass of one of these, defined
beside the code that raises it and exported by `twofold`. An error holds its facts as attributes;
its text states what failed and what to do. Nothing here depends on the protocol.
"""


class TwofoldError(Exception):
    """The base class of every error that Twofold raises on purpose."""


class PeerError(TwofoldError):
    """The peer sent something that breaks the protocol, or is gone."""


class LocalError(TwofoldError):
    """This program asked for something that cannot be done."""


class ConnectionEnded(PeerError):
    """The peer closed the connection; whatever was requested gets no response."""


class ConnectionClosed(LocalError):
    """This program closed the connection while a request was pending, or before it was sent."""


class NoAnswer(PeerError):
    """The peer did not answer in time.

    Attributes:
        method: The method of the request.
        seconds: How long the response was waited for.
    """

    def __init__(self, who: str, method: str, seconds: float) -> None:
        super().__init__(f"The {who} did not answer {method} within {seconds:g} seconds.")
        self.method = method
        self.seconds = seconds


class BadAnswer(PeerError):
    """The peer answered with a result that the protocol does not allow there.

    Attributes:
        method: The method of the request.
        reason: What is wrong with the result.
    """

    def __init__(self, who: str, method: str, reason: str) -> None:
        super().__init__(f"The {who} answered {method} with an invalid result: {reason}")
        self.method = method
        self.reason = reason


class NotSupported(LocalError):
    """This program asked for something that the peer does not support."""
