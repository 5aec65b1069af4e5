"""What the tests of markdown share: documents, ways to feed them, and short names for blocks."""

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import strategies as st

from twofold.view.markdown import Heading, ListItem, Markdown, MarkdownBlock, Paragraph, Quote, Span


def blocks(text: str) -> list[MarkdownBlock]:
    markdown = Markdown()
    return [*markdown.feed(text), *markdown.end()]


def in_pieces(text: str, cuts: list[int], *, asked: bool = False) -> list[MarkdownBlock]:
    markdown = Markdown()
    made: list[MarkdownBlock] = []
    for piece in pieces_of(text, cuts):
        made += markdown.feed(piece)
        if asked:
            markdown.tail()
    return [*made, *markdown.end()]


def pieces_of(text: str, cuts: list[int]) -> Iterator[str]:
    at = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return (text[start:end] for start, end in pairwise(at))


def texts(found: tuple[Span, ...]) -> str:
    return "".join([span.text for span in found])


BULLET = ListItem(opens=True)
IN_BULLET = ListItem()
ONE = ListItem(1, opens=True)
IN_ONE = ListItem(1)


def words(text: str, *within: Quote | ListItem) -> Paragraph:
    return Paragraph((Span(text),), within)


def heading(level: int, text: str) -> Heading:
    return Heading(level, (Span(text),))


def cells(*names: str) -> tuple[tuple[Span, ...], ...]:
    return tuple((Span(name),) if name else () for name in names)


# Typical answers of language models.
DOCUMENTS = [
    """\
# Refactoring the *parser*

Here's what I **changed**, and why it `matters`:

1. **Tokens** are now `frozen`:
   ```python
   @dataclass(frozen=True)
   class Token:
       kind: str

       text: str
   ```
2. The lexer no longer copies.
   - It keeps an index
   - and a `memoryview`
     over the source.

   So it is ~2x faster.
3. Tests:
   1. `test_lexer.py`
   2. `test_parser.py`

## Results

| file | before | after |
|:-----|-------:|:-----:|
| `lexer.py` | 12 ms | **5 ms** |
| parser.py | 30 ms | 29 ms |

> **Note:** this needs Python 3.11.
>
> - see [the docs](https://docs.python.org/3/whatsnew/3.11.html)
> - and `pyproject.toml`
>
> ```toml
> requires-python = ">=3.11"
> ```

---

Run it with:

```bash
$ pytest -q   # all of them
```

Done!
""",
    """\
Summary
=======

Fixed the bug in `snake_case_name` (a * b * c was wrong); ***very*** important, ~~not~~.

* one
* two

  with a paragraph

      and indented code

* three
    * deep
        * deeper

Next steps
----------

- Ship it
- > quoted
  > twice
- ```
  code first
  ```

    plain indented code

    more of it

![chart](chart.png) and <https://example.org> \\*not emphasis\\* &amp; &lt;tag&gt;
""",
    """\
Okay:
- **Root cause**: `None` is *falsy*.
- **Fix**: see [PR 12](https://example.org/pr/12 "title").
  Also `a | b`.

  ~~~js
  const x = `y`;
  ~~~
10. ten
11. eleven

a | b
--- | ---
1 | `x \\| y`
2 |

***

> quote
continued lazily

> > nested
> back
1) other
2) marks
""",
]

SNIPPETS = st.sampled_from(
    [
        *(
            "a",
            "b c",
            " ",
            "  ",
            "    ",
            "\t",
            "\n",
            "\n\n",
            "\r\n",
            "- ",
            "* ",
            "1. ",
            "12) ",
            "> ",
        ),
        *("#", "# ", "## x", "```", "```py\n", "~~~", "---", "===", "|", "|-|-|\n", "| a | b |\n"),
        *("*", "**", "_", "~~", "`", "``", "[", "]", "](", "(x)", "](u)", "![", "<", ">", "<b>"),
        *(
            "&amp;",
            "&#27;",
            "\\",
            "\\*",
            "https://x.y/z",
            "www.x.y",
            "[x] ",
            "é",
            "世",
            "🙂",
            "x" * 700,
        ),
    ]
)
DOCS = st.lists(SNIPPETS, max_size=60).map("".join)
