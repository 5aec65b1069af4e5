"""Rich's `Live(Markdown(text))`: `python -m benchmarks.terminal_peers.rich_markdown STREAM`.

It is rendered anew for every chunk; with `--coalesce` ten times a second at most, from a thread,
as `Live` does if it is left alone. It needs a terminal (see `in_terminal`).
"""

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown

from benchmarks.terminal_peers.report import Clock, Wanted


class Counted(Live):
    """Counts how often it draws."""

    redraws = 0

    def refresh(self) -> None:
        self.redraws += 1
        super().refresh()


def main() -> None:
    wanted = Wanted("rich")
    console = Console()
    shown, text = 0, ""
    clock = Clock()
    with Counted(
        Markdown(text), console=console, auto_refresh=wanted.coalesce, refresh_per_second=10
    ) as live:
        for chunk in wanted.chunks:
            if clock.so_far() > wanted.limit:
                break
            text += chunk
            live.update(Markdown(text), refresh=not wanted.coalesce)
            shown += 1
    clock.stop()
    wanted.report(clock, shown, live.redraws)


if __name__ == "__main__":
    main()
