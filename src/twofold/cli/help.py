"""The help of a command: its text, examples, and its options in groups.

The groups and examples of all commands are in one table, so that they use the same words. Nothing
that takes long may be imported here.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

_OTHER = "Other options"


class Help(NamedTuple):
    """What the help of a command has besides its text."""

    examples: Sequence[str]
    """Commands as one types them."""
    groups: Mapping[str, Sequence[str]]
    """The headings, each with the names of its options. Options in no group are listed last."""


_AGENT = "Agent"
_OUTPUT = "Output"

HELP: Mapping[str, Help] = {
    "agent": Help(
        [
            "twofold run -- twofold agent permission",
            "twofold agent --list",
        ],
        {
            "Behaviour": ["--speed", "--keep"],
            "Protocol": ["--version", "--line-limit"],
        },
    ),
    "agents": Help(["twofold agents", "twofold agents --check"], {}),
    "bridge": Help(
        [
            "twofold bridge claude",
            "twofold bridge -- some-agent --acp",
            "twofold bridge --losses losses.jsonl -- some-agent --acp",
        ],
        {
            "Versions": ["--client", "--agent"],
            "Losses": ["--strict", "--losses"],
            "Files and commands for an agent of version 1": ["--offer", "--pass-env"],
            _AGENT: ["--line-limit", "--token-file"],
        },
    ),
    "completion": Help(
        [
            "twofold completion bash --install",
            'eval "$(twofold completion bash)"',
        ],
        {},
    ),
    "convert": Help(
        ["twofold convert --to 2 tape.jsonl > tape-v2.jsonl"],
        {"Versions": ["--to", "--from"], "Losses": ["--strict"]},
    ),
    "doctor": Help(
        [
            "twofold doctor -- some-agent --acp",
            'twofold doctor --prompt "Say hello" --format markdown -- some-agent --acp',
        ],
        {
            "Checks": ["--prompt", "--login", "--timeout"],
            _AGENT: ["--cwd", "--version", "--token-file"],
            _OUTPUT: ["--format", "--json"],
        },
    ),
    "fold": Help(
        ["twofold fold tape.jsonl"],
        {"Versions": ["--from", "--draft"]},
    ),
    "journal": Help(
        ["twofold journal check", "twofold journal import tape.jsonl"],
        {},
    ),
    "replay": Help(
        [
            "twofold run -- twofold replay tape.jsonl",
            "twofold replay --speed max --session s1 tape.jsonl",
        ],
        {
            "Playing": ["--speed", "--session", "--loop", "--strict"],
            "Versions": ["--version", "--from"],
        },
    ),
    "run": Help(
        [
            "twofold run claude",
            "twofold run -- some-agent --acp",
            "twofold run wss://agents.example.org/acp",
            'twofold run --prompt "Explain main.py" --allow read -- some-agent --acp',
            "twofold run --resume -- some-agent --acp",
        ],
        {
            "Prompts": ["--prompt", "--start", "--resume"],
            "Permissions": ["--allow", "--reject", "--ask", "--policy"],
            _AGENT: [
                *("--cwd", "--version", "--offer", "--pass-env", "--line-limit", "--token-file"),
            ],
            "With --prompt": ["--format", "--login", "--timeout"],
            _OUTPUT: ["--no-color", "--verbose", "--record"],
        },
    ),
    "serve": Help(
        [
            "twofold serve claude",
            "twofold serve -- some-agent --acp",
            "twofold serve --link observer",
            "twofold serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --name box.example",
        ],
        {
            "Page": ["--no-open", "--link"],
            "Permissions": ["--allow", "--reject", "--ask", "--policy"],
            _AGENT: ["--cwd", "--version", "--token-file"],
            "Address": ["--host", "--port", "--tls-cert", "--tls-key", "--name", "--behind-proxy"],
            "Access": ["--insecure-no-auth"],
        },
    ),
    "sessions": Help(
        [
            "twofold sessions -- some-agent --acp",
            "twofold sessions --all --json -- some-agent --acp",
        ],
        {_AGENT: ["--cwd", "--all", "--login", "--token-file"], _OUTPUT: ["--json"]},
    ),
    "settings": Help(["twofold settings", "twofold settings --schema"], {}),
    "show": Help(
        [
            "twofold show tape.jsonl",
            "twofold show --from 1 tape.jsonl | less -R",
            "twofold show --format html tape.jsonl > talk.html",
            "twofold show --wire --filter faults tape.jsonl",
            "twofold show --message 12 tape.jsonl",
        ],
        {
            "Messages": ["--wire", "--message", "--filter", "--verbose"],
            "States": ["--at", "--diff", "--session"],
            "Versions": ["--from"],
            _OUTPUT: ["--format", "--theme"],
        },
    ),
}


class HelpfulCommand(click.Command):
    """A command whose help has the examples and groups of `HELP`."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        write_examples(formatter, HELP[self.name or ""].examples)
        self.format_options(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups = HELP[self.name or ""].groups
        headings = {name: heading for heading, names in groups.items() for name in names}
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in groups}
        sections.setdefault(_OTHER if groups else "Options", [])
        rest = list(sections)[-1]
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if record is not None:
                known = [headings[name] for name in option.opts if name in headings]
                sections[known[0] if known else rest].append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write examples, which are not wrapped: they are there to be copied."""
    with formatter.section("Examples" if len(examples) > 1 else "Example"):
        for example in examples:
            formatter.write(f"{'':{formatter.current_indent}}{example}\n")
