"""Textual's `Markdown` widget: `python -m benchmarks.terminal_peers.textual_markdown STREAM`.

Every chunk is appended and awaited; with `--coalesce` they go through `MarkdownStream`, which puts
together what comes while the widget is busy. It needs a terminal (see `in_terminal`).
"""

import asyncio
from itertools import accumulate

from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.containers import VerticalScroll
from textual.widgets import Markdown

from benchmarks.terminal_peers.report import Clock, Wanted


class Counted(Markdown):
    """Counts how often something is appended, and how much of it is there."""

    redraws = 0
    there = 0

    def append(self, markdown: str) -> AwaitComplete:
        self.redraws += 1

        async def appended() -> None:
            await super(Counted, self).append(markdown)
            self.there += len(markdown)

        return AwaitComplete(appended())


class Shown(App[None]):
    """One message that grows, kept in view."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__()
        self._wanted = wanted
        self.markdown = Counted()
        self.clock = Clock()

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.anchor()
            yield self.markdown

    def on_ready(self) -> None:
        self.run_worker(self._show())

    async def _show(self) -> None:
        self.clock = Clock()
        limit = self._wanted.limit
        try:
            async with asyncio.timeout(None if limit == float("inf") else limit):
                await (self._stream() if self._wanted.coalesce else self._each())
                drawn = asyncio.Event()
                self.call_after_refresh(drawn.set)
                await drawn.wait()
        except TimeoutError:
            pass
        self.clock.stop()
        self.exit()

    async def _each(self) -> None:
        for chunk in self._wanted.chunks:
            await self.markdown.append(chunk)

    async def _stream(self) -> None:
        stream = Markdown.get_stream(self.markdown)
        for chunk in self._wanted.chunks:
            await stream.write(chunk)
        await stream.stop()


def main() -> None:
    wanted = Wanted("textual")
    app = Shown(wanted)
    app.run()
    sizes = accumulate(map(len, wanted.chunks))
    shown = sum(1 for size in sizes if size <= app.markdown.there)
    wanted.report(app.clock, shown, app.markdown.redraws)


if __name__ == "__main__":
    main()
