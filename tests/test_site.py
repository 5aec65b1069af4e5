"""The documentation site builds without warnings, and its reference lists the public names."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import twofold

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
_LISTED = re.compile(r"^\.\. (?:auto\w+|py:\w+|union):: twofold\.(\w+)$", re.MULTILINE)
_MODULES = re.compile(r"^\.\. wire:: (\w+)$", re.MULTILINE)
# what makes a browser fetch something: a link to follow does not
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video)\b[^>]*\bsrc=["'](?:https?:)?//[^"']*"""
    r"""|<link\b[^>]*\bhref=["'](?:https?:)?//[^"']*"""
    r"""|@import[^;]*(?:https?:)?//[^;]*|url\(\s*["']?(?:https?:)?//[^)]*"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("sphinx") is None and not os.environ.get("CI"):
        pytest.skip("Sphinx is not installed: pip install 'twofold[docs]'")
    built = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--keep-going", "--quiet", "-d", str(built / "doctrees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(built / "html")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return built / "html"


def listed() -> list[str]:
    pages = [page.read_text(encoding="utf-8") for page in sorted(REFERENCE.glob("*.md"))]
    return [name for page in pages for name in [*_LISTED.findall(page), *_MODULES.findall(page)]]


def test_the_site_has_every_page_of_the_folder(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists()


def test_no_page_of_the_site_loads_anything_from_a_network(site: Path) -> None:
    for page in [*site.rglob("*.html"), *site.rglob("*.css")]:
        assert _FETCHED.findall(page.read_text(encoding="utf-8")) == [], page


def test_the_reference_shows_real_signatures_and_docstrings(site: Path) -> None:
    page = (site / "reference" / "client.html").read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))
    assert "twofold.connect( " in text
    assert "__getattr__" not in text
    assert "twofold.Client( " not in text  # a constructor that only Twofold calls
    assert "twofold.Reply( " in text
    assert re.sub(r"\s+", " ", str(twofold.Client.__doc__).split(".")[0]) in text


def test_the_reference_lists_each_public_name_once() -> None:
    names = listed()
    missing = sorted(set(twofold.__all__) - set(names))
    assert missing == [], "add these to a page in docs/reference"
    gone = sorted(set(names) - set(twofold.__all__))
    assert gone == [], "remove these from docs/reference: `import twofold` does not give them"
    assert sorted(names) == sorted(set(names))
