"""Every error that a public call raises is exported and documented."""

import ast
from collections.abc import Iterator
from pathlib import Path

import twofold

SOURCE = Path(twofold.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "errors.md"

# Errors without an underscore that no public call raises, and why.
NOT_PUBLIC = {
    "LineTooLong": "never raised: the connection reports it as a problem of kind noise",
    "TooManyValues": "never raised: the connection reports it as a problem of kind noise",
    "EventTooLong": "ends the connection, with a `RemoteEnded` that states it",
    "StartOver": "caught by the client, which starts the agent again",
    "NotReopened": "of the commands, which load sessions by `client.known_sessions`",
    "LoginNeeded": "of the commands, which log in by `client.login`",
    "NoSuchWay": "of the commands, which log in by `client.login`",
    "NoTerminal": "of the commands, which log in by `client.login`",
    "LoginFailed": "of the commands, which log in by `client.login`",
    "SetupFailed": "of the commands, which begin sessions by `client.session_setup`",
    "SettingsError": "of the commands, which read `host.settings`",
    "BadAmount": "of the commands, which read `host.settings`",
    "UnknownAgent": "of the commands, which know agents by `host.known_agents`",
    "AgentNotInstalled": "of the commands, which know agents by `host.known_agents`",
    "BadRegistry": "of the commands, which know agents by `host.known_agents`",
    "NoDefaultAgent": "of the commands `run` and `sessions`",
    "JournalFailed": "of the journal, which hosts write",
    "JournalBusy": "of the journal, which hosts write",
    "JournalClosed": "of the journal, which hosts write",
    "JournalRefused": "of the journal, which hosts write",
    "SessionNotOpen": "of the journal, which hosts write",
    "NotInJournal": "of the journal, which hosts write",
    "JournalNotOpened": "of the journal: its file",
    "JournalLocked": "of the journal: its file",
    "JournalTooNew": "of the journal: its file",
    "JournalNotPrivate": "of the journal: its file",
    "JournalDamaged": "of the journal: its file",
    "NotSent": "of the host: a prompt of a client",
    "NotReading": "of the host: a client that is disconnected",
    "QueueFull": "of the host: a prompt of a client",
    "NotQueued": "of the host: a queued prompt of a client",
    "AlreadyAnswered": "of the host: an answer of a client",
    "NoSuchKeptSession": "of the commands that read a journal",
    "NoSuchQuestion": "of the host: an answer of a client",
    "NotRunning": "of the host: what a client asks of a session",
    "TooMany": "of the host: a session that a client begins",
    "NoSuchSession": "of the host: what a client asks of a session",
    "NotADirectory": "of the host: a session that a client begins",
    "ListingFailed": "of the host: the sessions of an agent",
    "NoneToResume": "of the command `run`",
    "NotListening": "of the command `serve`",
    "BadCertificate": "of the command `serve`",
    "TokenNotKept": "of the command `serve`",
    "NoServer": "of the command `serve`",
    "NeedsExtra": "of the command `serve`",
    "BadRequest": "of the server of the page: a message of a page",
    "Refused": "of the server of the page: a request",
    "NotShown": "of the server of the page: a file",
    "Closed": "of the server of the page: the other side of a socket is gone",
    "NotPlayable": "of the command `replay`",
    "UnknownScenario": "of the demo agent",
    "Leave": "of the terminal client: the user leaves",
    "EditorFailed": "of the terminal client: the external editor",
    "ClipboardFailed": "of the terminal client: an image from the clipboard",
    "TakesNoArgument": "of the terminal client: a slash command",
    "UnknownCommand": "of the terminal client: a slash command",
    "NoModes": "of the terminal client: a slash command",
    "NoOtherMode": "of the terminal client: Shift-Tab",
    "NoModels": "of the terminal client: a slash command",
    "NotANumber": "of the terminal client: a slash command",
    "NotCopied": "of the terminal client: a slash command",
    "NotExported": "of the terminal client: a slash command",
    "NoSuchFile": "of the terminal client: a slash command",
    "NotRun": "of the terminal client: a command of the person's",
    "UnknownOption": "of the terminal client: a slash command",
    "UnknownValue": "of the terminal client: a slash command",
    "AmbiguousName": "of the terminal client: a slash command",
}


def classes() -> Iterator[tuple[str, set[str]]]:
    """Every class of the source, and the names of its bases."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, {ast.unparse(base).rpartition(".")[2] for base in node.bases}


def errors() -> list[str]:
    """The names of the classes that are exceptions, once for each class."""
    found, known = list(classes()), {"Exception", "BaseException"}
    while more := {name for name, bases in found if bases & known} - known:
        known |= more
    return [name for name, bases in found if bases & known]


def test_every_error_is_exported_or_has_a_reason_not_to_be() -> None:
    public = {name for name in errors() if not name.startswith("_")}
    assert public - set(twofold.__all__) == set(NOT_PUBLIC)


def test_no_two_errors_have_one_name() -> None:
    names = errors()
    assert sorted(names) == sorted(set(names))


def test_every_exported_error_is_a_twofold_error_and_on_the_page_of_errors() -> None:
    page = PAGE.read_text(encoding="utf-8")
    exported = [name for name in errors() if name in twofold.__all__]
    assert len(exported) > 30
    for name in exported:
        assert issubclass(getattr(twofold, name), twofold.TwofoldError)
        assert f"`{name}`" in page, name


def test_every_exported_error_states_whose_fault_it_is() -> None:
    roots = {"TwofoldError", "NotConvertible", "RequestError"}
    for name in {name for name in errors() if name in twofold.__all__} - roots:
        error = getattr(twofold, name)
        assert issubclass(error, twofold.PeerError) != issubclass(error, twofold.LocalError), name
