"""Text of peers, made safe to show. Nothing here depends on the protocol."""

from twofold.text.safe import one_line, sanitize
from twofold.text.terminal import TerminalText, terminal_text

__all__ = ["TerminalText", "one_line", "sanitize", "terminal_text"]
