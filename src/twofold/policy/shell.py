"""What a line for a shell may run, read widely: for rules that reject or ask, never to allow.

No shell is parsed here. A line is cut at everything that can end a command, and then each of its
words may be the program: so `sudo rm`, `FOO=1 rm`, `xargs rm`, `bash -c 'rm …'` and `/bin/rm` all
run `rm`, whatever stands before it, and so does `git rm`. That is more than the truth. What a
shell works out while it runs (variables, encoded scripts) is not seen. The cost is linear.
"""

import re
from fnmatch import fnmatchcase, translate
from typing import Final

from twofold.policy import globs

_ENDS: Final = re.compile(f"{globs.SHELL_CONTROL.pattern}|[{{}}]")
_CONTINUED: Final = re.compile(r"\\\r?\n")
_BLANK: Final = re.compile(r"\$IFS|\$\{IFS\}")
_QUOTES: Final = re.compile(r"[\\'\"]")
_START: Final = r"(?<![^\s'\"/\\=:,@!$~{}\[\]])"
"""Where a program may begin: at a word, at the end of a path, behind a quote or an assignment."""


def parts(text: str) -> dict[str, None]:
    """The line itself and every command in it, with and without quotes; the keys are in order."""
    found = dict.fromkeys((text, globs.one_line(text)))
    for reading in (text, _unquoted(text)):
        for part in _ENDS.split(reading):
            found[globs.one_line(part)] = None
        found[globs.one_line(reading)] = None
    found.pop("", None)
    return found


def runs(pattern: str, part: str) -> bool:
    """Whether one of `parts` may run a command that the pattern fits."""
    patterns = {pattern}
    if "[" not in pattern:  # a set of quotes would become an empty one
        patterns.add(_unquoted(pattern))
    if globs.SHELL_CONTROL.search(pattern):  # it speaks of more than one command
        patterns.update([f"{each}*" for each in patterns])
    # `rm *` is meant for `rm`, too, if that is all there is to see
    return any(_ends_with(each, text) for each in patterns for text in (part, f"{part} "))


def _unquoted(text: str) -> str:
    return _QUOTES.sub("", _BLANK.sub(" ", _CONTINUED.sub("", text)))


def _ends_with(pattern: str, text: str) -> bool:
    """Whether the pattern fits the text from some start of a program to its end."""
    if globs.matches_text(pattern, text):
        return True
    head, rest = globs.fixed_head(pattern)
    if not head:
        return False  # it begins with a star: what fits an end of the text fits all of it
    if not rest:
        return re.search(_START + translate(head), text) is not None
    begins = re.search(_START + translate(head)[:-2], text)  # without the end of the text
    # what the rest, which begins with a star, does not fit here it fits nowhere behind
    return begins is not None and fnmatchcase(text[begins.end() :], rest)
