"""`make metrics` counts what its page lists."""

from pathlib import Path

import pytest

from scripts.metrics import cycles, imports, sizes, with_one_importer

FILES = {
    "__init__.py": "from twofold.one import a\n",
    "one.py": "def f():\n    from twofold.room import two\n",
    "room/__init__.py": "",
    "room/two.py": "import json\nfrom . import three\nfrom twofold import one\n",
    "room/three.py": "from twofold.room.two import b\n\n",
    "room/alone.py": "import twofold.room.three\n",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "twofold" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_files_and_lines_are_counted(source: Path) -> None:
    assert sizes(source) == (6, 9)


def test_every_form_of_import_is_followed(source: Path) -> None:
    assert imports(source) == {
        "twofold": {"twofold.one"},
        "twofold.one": {"twofold.room.two"},
        "twofold.room": set(),
        "twofold.room.two": {"twofold.room.three", "twofold.one"},
        "twofold.room.three": {"twofold.room.two"},
        "twofold.room.alone": {"twofold.room.three"},
    }


def test_modules_with_one_importer_are_counted_without_packages(source: Path) -> None:
    graph = imports(source) | {"twofold.room.two": {"twofold.one"}}
    assert with_one_importer(graph, source) == (1, 4)  # three


def test_modules_that_reach_each_other_are_one_cycle(source: Path) -> None:
    assert cycles(imports(source)) == [["twofold.one", "twofold.room.three", "twofold.room.two"]]
    assert cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
