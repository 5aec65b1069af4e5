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
