"""Whether a user message only repeats the prompt that was just sent."""

from twofold.wire.content import ContentBlock, TextContent


class Echo:
    """The part of a prompt that has not been repeated yet."""

    __slots__ = ("_expected",)

    def __init__(self) -> None:
        self._expected: list[ContentBlock] = []

    def expect(self, prompt: list[ContentBlock]) -> None:
        """A prompt was sent: its echo may follow."""
        self._expected = list(prompt)

    def __bool__(self) -> bool:
        """Whether an echo may still come."""
        return bool(self._expected)

    def forget(self) -> None:
        """Whatever comes now is no echo."""
        self._expected = []

    def swallows(self, block: ContentBlock) -> bool:
        """Whether `block` is the next piece of the echo; an agent may cut text anywhere."""
        if not self._expected:
            return False
        expected = self._expected[0]
        if block == expected:
            del self._expected[0]
            return True
        if (
            isinstance(block, TextContent)
            and isinstance(expected, TextContent)
            and block.text
            and expected.text.startswith(block.text)
        ):
            rest = expected.text[len(block.text) :]
            self._expected[:1] = [TextContent(rest)] if rest else []
            return True
        self._expected = []
        return False
