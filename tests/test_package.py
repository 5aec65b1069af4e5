"""The wheel and the sdist hold what they should, and the package index can show the README."""

import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import pytest
import readme_renderer.markdown

import twofold

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REPOSITORY: str = PROJECT["urls"]["Repository"]


class Built(NamedTuple):
    wheel: ZipFile
    sdist: tarfile.TarFile

    @property
    def metadata(self) -> Message:
        (name,) = [each for each in self.wheel.namelist() if each.endswith(".dist-info/METADATA")]
        return Parser().parsestr(self.wheel.read(name).decode("utf-8"))

    @property
    def readme(self) -> str:
        return str(self.metadata.get_payload())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    with ZipFile(wheel) as opened, tarfile.open(sdist) as unpacked:
        yield Built(opened, unpacked)


def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "twofold").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = {name for name in built.wheel.namelist() if ".dist-info/" not in name}
    assert names == sources
    assert "twofold/py.typed" in names


def test_the_sdist_holds_what_the_tests_and_the_documentation_need(built: Built) -> None:
    names = {name.partition("/")[2] for name in built.sdist.getnames()}
    for path in ["pyproject.toml", "Makefile", "LICENSE", "CHANGELOG.md", "README.md"]:
        assert path in names
    for folder in ["src/twofold", "tests", "docs", "scripts"]:
        here = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py")}
        assert here <= names


def test_the_metadata_describes_the_package(built: Built) -> None:
    metadata = built.metadata
    assert (metadata["Name"], metadata["Version"]) == ("twofold", twofold.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert {each.partition(",")[0] for each in metadata.get_all("Project-URL", [])} >= {
        "Repository",
        "Documentation",
        "Changelog",
    }


def test_the_readme_can_be_shown_by_the_package_index(built: Built) -> None:
    shown = readme_renderer.markdown.render(built.readme)
    assert shown is not None
    assert re.search(r"<h1[^>]*>Twofold<", shown)
    assert f'src="{REPOSITORY}/raw/main/docs/client.svg"' in shown


def test_no_link_of_the_readme_is_relative_on_the_package_index(built: Built) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", built.readme)
    assert [target for target in targets if not target.startswith("https://")] == []
    ours = [target for target in targets if target.startswith(REPOSITORY)]
    for target in ours:
        path = re.sub(r"^/(?:blob|raw)/main/", "", target.removeprefix(REPOSITORY))
        assert (ROOT / path.partition("#")[0]).is_file(), target
    assert len(ours) == len(re.findall(r"\]\((?!https?:)", (ROOT / "README.md").read_text("utf-8")))


def test_every_address_of_the_project_is_in_its_repository() -> None:
    for url in PROJECT["urls"].values():
        assert url.startswith(REPOSITORY)
