"""How outputs of terminals are laid out, live and in a transcript."""

from twofold.session import Terminal
from twofold.styled.emulator import Outputs
from twofold.term.block_lines import live_output, whole_output
from twofold.term.lines import all_rows, plain
from twofold.view.blocks import TerminalItem


def item(output: bytes) -> TerminalItem:
    terminal = Terminal("t", output=bytearray(output))
    return TerminalItem(None, None, "", True, None, False, "t", terminal)


def test_rows_of_a_terminal_are_cut_and_not_wrapped_as_prose() -> None:
    words = item(b"some words that are long")
    for lines in (whole_output(words, None), live_output(Outputs())(words, 5)):
        assert [plain(row) for row in all_rows(lines, 10)] == ["some words", " that are ", "long"]


def test_of_a_long_output_a_line_counts_what_is_above() -> None:
    words = item(b"one\ntwo\nthree\nfour")
    lines = live_output(Outputs())(words, 2)
    assert [plain(row) for row in all_rows(lines, 40)] == ["… 2 lines before", "three", "four"]
    assert len(whole_output(words, 2)) == 4
