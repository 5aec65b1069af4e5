"""The keys under which agents put commands, directories, paths and texts into a tool's input.

No schema has them: the tables list what agents send. `policy` judges a request by them and `view`
shows it by them, from here, so that whatever is judged as a command is also shown as one.
"""

import re
from typing import Final

# Keys in lower case and without anything but letters: see `letters_of`.

COMMANDS: Final = frozenset(
    {"command", "cmd", "commands", "cmds", "commandline", "cmdline", "shellcommand", "argv"}
)
"""A command: one string, or a list of words."""
SCRIPTS: Final = frozenset({"script", "scripts", "shellscript", "bash", "code", "stdin"})
"""Something else that is run."""
ARGUMENTS: Final = frozenset({"args", "arguments", "argv"})
"""The arguments of a command beside them, which is the program then."""
DIRECTORIES: Final = frozenset(
    {
        *("cwd", "workdir", "workingdir", "workingdirectory"),
        *("currentdirectory", "currentworkingdirectory"),
    }
)
"""The directory in which something runs."""
DIRECTORIES_OF_COMMANDS: Final = frozenset({"directory", "dir", "dirpath", "directorypath"})
"""The same beside a command; elsewhere these are paths."""
VARIABLES: Final = frozenset({"env", "envs", "environment", "envvars", "environmentvariables"})
"""Environment variables, in whatever form."""
EDITED_TEXTS: Final = frozenset(
    {
        *("content", "contents", "text", "filetext", "inserttext", "replacement"),
        *("oldstring", "oldstr", "oldtext", "newstring", "newstr", "newtext", "newsource"),
        *("code", "codeedit", "diff", "patch"),
    }
)
"""What an edit takes out and puts in."""
PLAIN_TEXTS: Final = frozenset(
    {
        *("content", "text", "filetext", "description", "title"),
        *("oldstring", "oldstr", "oldtext", "newstring", "newstr", "newtext"),
    }
)
"""Texts whose key adds nothing to a text that is shown already."""
PLAIN_PATHS: Final = frozenset({"path", "filepath", "abspath", "absolutepath", "notebookpath"})
"""Paths whose key adds nothing to a path that is shown already."""
IDS: Final = frozenset({"callid", "toolcallid", "tooluseid", "sessionid"})
"""The ids of the call and of its session."""

_PATH_WORDS: Final = frozenset(
    {
        *("path", "file", "filename", "filepath", "dir", "directory", "folder"),
        *("paths", "files", "filenames", "filepaths", "dirs", "directories", "folders"),
    }
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_OTHER = re.compile(r"[^a-z]")


def letters_of(key: str) -> str:
    """A key as the tables have it: `working-Directory` is `workingdirectory`."""
    return _OTHER.sub("", key.lower())


def names_path(key: str) -> bool:
    """Whether the last word of a key names a file or a directory: `target_file`, `outputDir`."""
    words = _WORD.findall(key)
    return bool(words) and words[-1].lower() in _PATH_WORDS
