"""Fixtures for all tests: the official SDKs, their validators, and data beside the project.

A test that uses a peer is marked `peers`. Without the peer it is skipped, unless CI is
set: there a missing peer is a failure.
"""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import hypothesis
import pytest
from hypothesis.strategies import SearchStrategy

from tests.peers import install
from tests.peers.validators import (
    Flavour,
    NodeValidator,
    Schemas,
    SchemaValidator,
    SdkValidator,
    Version,
    load_schemas,
)
from tests.support.schema_values import SchemaValues

HERE = Path(__file__).parent
IN_CI = bool(os.environ.get("CI"))
SHARED = install.ROOT.parent / "shared"
PEER_FIXTURES = {"installed", "node_sdk", "page_checkers", "python_sdk", "python_server"}
# tests that start programs of ours and wait for them
PROCESSES = {
    "agent/test_process",
    "bridge/test_process",
    "cli/test_agent_choice",
    "cli/test_agents",
    "cli/test_attach",
    "cli/test_journal_commands",
    "cli/test_make_demo",
    "cli/test_picture",
    "cli/test_replay",
    "cli/test_remote",
    "cli/test_run",
    "cli/test_run_ends",
    "cli/test_serve",
    "cli/test_serve_journal",
    "cli/test_sessions",
    "client/test_launch",
    "client/test_login",
    "client/test_terminals",
    "demo/test_scenarios",
    "host/test_host",
    "host/test_kept_by_journal",
    "journal/test_crashes",
    "journal/test_sqlite",
    "journal/test_sqlite_file",
    "peers/test_twofold_client",
    "support/test_terminal_stage",
    "term/test_client_attention",
    "term/test_client_looks",
    "term/test_client_mentions",
    "term/test_client_remote",
    "term/test_client_scenarios",
    "term/test_client_sessions",
    "term/test_client_settings",
    "term/test_client_showcase",
    "term/test_client_start",
    "term/test_client_talk",
    "term/test_client_theme",
    "term/test_random_typing",
    "term/test_reject_reason",
    "test_benchmarks",
    "test_complaints",
    "test_docs",
    "test_package",
    "test_site",
    "transport/test_commands",
    "transport/test_process",
    "transport/test_stdio",
    "web/test_many_connections",
    "web/test_page_blocks",
    "web/test_page_composer",
    "web/test_page_hostile",
    "web/test_page_hostile_agent",
    "web/test_page_list",
    "web/test_page_long_messages",
    "web/test_page_network",
    "web/test_page_people",
    "web/test_page_questions",
    "web/test_page_scenarios",
    "web/test_page_source",
    "web/test_page_walk",
}

# the settings of the person who runs the tests must not change them
os.environ["TWOFOLD_SETTINGS"] = os.devnull
# nor may they write into that person's state directory
_STATE = tempfile.TemporaryDirectory(prefix="twofold-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name

# a shell that starts the tests in the background has them, and what they start, ignore Ctrl-C
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# fewer examples than usual: there are many laws, and the fuzz goes on where they end
hypothesis.settings.register_profile("local", deadline=None, max_examples=50)
hypothesis.settings.register_profile(
    "ci", deadline=None, max_examples=50, derandomize=True, print_blob=True
)
hypothesis.settings.load_profile("ci" if IN_CI else "local")


# First, for `-m "not peers"` is applied in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if PEER_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("peers")
        elif item.path.relative_to(HERE).with_suffix("").as_posix() in PROCESSES:
            item.add_marker("processes")


def _or_skip(made: Callable[[], Path]) -> Path:
    try:
        return made()
    except install.Unavailable as error:
        if IN_CI:
            pytest.fail(f"CI needs every peer: {error}", pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def node_sdk() -> Path:
    """The folder of the official TypeScript SDK (`dist/`, `schema/`)."""
    return _or_skip(install.node_sdk)


@pytest.fixture(scope="session")
def page_checkers() -> Path:
    """The folder of the npm packages that check the page: `typescript`, `axe-core` and `biome`."""
    return _or_skip(install.page_checkers)


@pytest.fixture(scope="session")
def python_sdk() -> Callable[[str], Path]:
    """`python_sdk("0.12.1")`: an interpreter that has this release of the official Python SDK."""
    made: dict[str, Path] = {}
    refused: dict[str, install.Unavailable] = {}

    def interpreter(version: str) -> Path:
        def once() -> Path:
            if version in refused:
                raise refused[version]
            try:
                return made.setdefault(version, install.python_sdk(version))
            except install.Unavailable as error:
                refused[version] = error
                raise

        return made.get(version) or _or_skip(once)

    return interpreter


@pytest.fixture(scope="session")
def python_server() -> Path:
    """An interpreter that has the official Python SDK with its server."""
    return _or_skip(install.python_server)


@pytest.fixture(scope="session")
def schemas(node_sdk: Path) -> Schemas:
    """The official schemas: `schemas["v1", "stable"]["$defs"]["SessionUpdate"]`."""
    return load_schemas(node_sdk)


@pytest.fixture(scope="session")
def valid(schemas: Schemas) -> SchemaValidator:
    """`valid(1, "stable", "SessionUpdate", value)`: the schema's objections, none if valid."""
    return SchemaValidator(schemas)


@pytest.fixture(scope="session")
def node_validator(node_sdk: Path) -> Iterator[NodeValidator]:
    """`node_validator.check(2, "SessionUpdate", value)`: the objections of the TypeScript SDK."""
    with NodeValidator(node_sdk) as validator:
        yield validator


@pytest.fixture(scope="session")
def sdk_validator(python_sdk: Callable[[str], Path]) -> Iterator[SdkValidator]:
    """`sdk_validator.check(2, "SessionUpdate", value)`: the objections of the Python SDK."""
    with SdkValidator(python_sdk) as validator:
        yield validator


class ValuesOf(Protocol):
    def __call__(
        self,
        version: Version,
        flavour: Flavour,
        name: str,
        *,
        extras: bool = True,
        unknown: bool = True,
        safe_integers: bool = False,
    ) -> SearchStrategy[Any]: ...


@pytest.fixture(scope="session")
def values_of(schemas: Schemas) -> ValuesOf:
    """`data.draw(values_of(2, "stable", "SessionUpdate"))`: random JSON of that type."""
    made: dict[tuple[Any, ...], SchemaValues] = {}

    def strategy(
        version: Version, flavour: Flavour, name: str, **options: bool
    ) -> SearchStrategy[Any]:
        key = (version, flavour, *sorted(options.items()))
        if key not in made:
            made[key] = SchemaValues(schemas[f"v{version}", flavour], **options)
        return made[key].of(name)

    return strategy


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """`shared("examples/v1.jsonl")`: a file of the data beside the project.

    Without that folder the test is skipped; in it, a missing file is a failure.
    """

    def path(name: str) -> Path:
        if not SHARED.is_dir():
            pytest.skip("there is no folder 'shared' beside the project")
        found = SHARED / name
        assert found.exists(), f"there is no {name} in the folder 'shared' beside the project"
        return found

    return path
