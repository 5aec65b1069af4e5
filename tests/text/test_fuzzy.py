from hypothesis import given
from hypothesis import strategies as st

from twofold.text.fuzzy import best_matches, best_paths, match_score, path_score

WORDS = st.text("abAB/_- ", max_size=12)


@given(WORDS, WORDS)
def test_a_needle_fits_exactly_if_its_letters_occur_in_this_order(needle: str, text: str) -> None:
    letters = iter(text.casefold())
    assert (match_score(needle, text) is not None) == all(
        letter in letters for letter in needle.casefold()
    )


@given(WORDS, st.lists(WORDS))
def test_only_items_that_fit_are_kept_and_an_empty_needle_changes_nothing(
    needle: str, items: list[str]
) -> None:
    kept = best_matches(needle, items, str)
    assert sorted(kept) == sorted(each for each in items if match_score(needle, each) is not None)
    assert best_matches("", items, str) == items


def test_whole_words_and_beginnings_of_words_come_first() -> None:
    paths = ["src/application.py", "tests/test_client.py", "docs/cat-clients.md", "client.py"]
    assert best_matches("client", paths, str)[0] == "client.py"
    assert best_matches("tc", paths, str)[0] == "tests/test_client.py"
    assert "src/application.py" not in best_matches("client", paths, str)


@given(WORDS, st.lists(WORDS), st.integers(0, 5))
def test_the_best_paths_are_those_with_the_highest_score(
    needle: str, paths: list[str], most: int
) -> None:
    fitting = [each for each in paths if match_score(needle, each) is not None]
    ordered = sorted(fitting, key=lambda each: -(path_score(needle, each) or 0))
    positions = best_paths(needle, [each.casefold() for each in paths], most)
    assert [paths[position] for position in positions] == ordered[:most]


def test_a_path_whose_name_fits_comes_before_one_whose_directories_fit() -> None:
    paths = ["tests/test_docstrings.py", "src/term/input/editor.py", "editing/tree.md", "src/term/"]
    best = [paths[position] for position in best_paths("edtr", paths, 4)]
    assert best[0] == "src/term/input/editor.py"
    assert paths[best_paths("term", paths, 1)[0]] == "src/term/"


def test_a_search_that_is_stopped_finds_nothing() -> None:
    assert best_paths("a", ["a"], 1) == [0]
    assert best_paths("a", ["a"], 1, lambda: True) == []
