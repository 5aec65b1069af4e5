"""Markdown: what it is taken for."""

from typing import Any

import pytest

from tests.support.markdown_texts import (
    BULLET,
    IN_BULLET,
    IN_ONE,
    ONE,
    blocks,
    cells,
    heading,
    words,
)
from twofold.view.markdown import (
    Blank,
    CodeLine,
    CodeStart,
    Heading,
    ListItem,
    MarkdownBlock,
    Paragraph,
    Quote,
    Rule,
    Span,
    Table,
)
from twofold.view.markdown.inline import spans

# ---- blocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \n\t\n", []),
        ("a", [words("a")]),
        ("a\nb  \n  c\\\nd", [words("a\nb\nc\nd")]),
        ("a\r\nb\r\n\r\nc\r\n", [words("a\nb"), Blank(), words("c")]),
        ("\n\na\n\n\n\nb\n\n", [words("a"), Blank(), words("b")]),
        # headings
        ("# a", [heading(1, "a")]),
        ("###### a ##", [heading(6, "a")]),
        ("# a#", [heading(1, "a#")]),
        ("#a", [words("#a")]),
        ("####### a", [words("####### a")]),
        ("#", [Heading(1, ())]),
        ("a\n# b\nc", [words("a"), heading(1, "b"), words("c")]),
        ("a\n===\nb", [heading(1, "a"), words("b")]),
        ("a\nb\n---", [heading(2, "a\nb")]),
        # rules
        ("---", [Rule()]),
        (" * * *\n___", [Rule(), Rule()]),
        ("--", [words("--")]),
        # lists
        ("- a\n* b\n+ c", [words(text, BULLET) for text in "abc"]),
        (
            "1. a\n2. b\n7) c",
            [
                words("a", ONE),
                words("b", ListItem(2, opens=True)),
                words("c", ListItem(7, opens=True)),
            ],
        ),
        ("- a\n  b\nc", [words("a\nb\nc", BULLET)]),
        ("- a\n\n  b", [words("a", BULLET), Blank((IN_BULLET,)), words("b", IN_BULLET)]),
        ("- a\n\nb", [words("a", BULLET), Blank(), words("b")]),
        (
            "- a\n  - b\n- c",
            [words("a", BULLET), words("b", IN_BULLET, BULLET), words("c", BULLET)],
        ),
        ("- - a", [words("a", BULLET, BULLET)]),
        ("-\n- a", [Paragraph((), (BULLET,)), words("a", BULLET)]),
        ("-\n  a", [words("a", BULLET)]),
        ("-\n\n  a", [Paragraph((), (BULLET,)), Blank(), words("a")]),
        ("-\ta", [words("a", BULLET)]),
        ("- a\n\n\tb", [words("a", BULLET), Blank((IN_BULLET,)), words("b", IN_BULLET)]),
        ("a\n- b", [words("a"), words("b", BULLET)]),
        ("a\n2. b", [words("a\n2. b")]),
        ("-a", [words("-a")]),
        ("1.a", [words("1.a")]),
        ("1234567890. a", [words("1234567890. a")]),
        (
            "- [x] a\n- [ ] b\n1. [X] c\n- [y] d\n- [x]",
            [
                words("a", ListItem(None, True, True)),
                words("b", ListItem(None, False, True)),
                words("c", ListItem(1, True, True)),
                words("[y] d", BULLET),
                words("[x]", BULLET),
            ],
        ),
        # quotes
        ("> a\nb\n\nc", [words("a\nb", Quote()), Blank(), words("c")]),
        (">a\n> > b", [words("a", Quote()), words("b", Quote(), Quote())]),
        ("> a\n>\n> b", [words("a", Quote()), Blank((Quote(),)), words("b", Quote())]),
        ("> a\n\n> b", [words("a", Quote()), Blank(), words("b", Quote())]),
        ("> - a\n>   - b", [words("a", Quote(), BULLET), words("b", Quote(), IN_BULLET, BULLET)]),
        ("- > a", [words("a", BULLET, Quote())]),
        (">", []),
        ("> ```\n> a\nb", [CodeStart(within=(Quote(),)), CodeLine("a", (Quote(),)), words("b")]),
        # code
        ("```\na\n```\nb", [CodeStart(), CodeLine("a"), words("b")]),
        ("```py x=1\n\n a\n", [CodeStart("py"), CodeLine(""), CodeLine(" a")]),
        ("~~~\n```\n~~~~  ", [CodeStart(), CodeLine("```")]),
        ("````\n```\n````", [CodeStart(), CodeLine("```")]),
        ("``` a`b", [words("``` a`b")]),
        ("  ```\n   a\n b\n  ```", [CodeStart(), CodeLine(" a"), CodeLine("b")]),
        ("```\n    ```\n```", [CodeStart(), CodeLine("    ```")]),
        ("a\n```\n\tb", [words("a"), CodeStart(), CodeLine("\tb")]),
        (
            "1. a\n   ```sh\n   b\n     c\n\n   ```\n   d",
            [
                words("a", ONE),
                CodeStart("sh", within=(IN_ONE,)),
                *(CodeLine(text, (IN_ONE,)) for text in ("b", "  c", "")),
                words("d", IN_ONE),
            ],
        ),
        ("- ```\n  a", [CodeStart(within=(BULLET,)), CodeLine("a", (IN_BULLET,))]),
        (
            "    a\n\n\n      b\n\nc",
            [CodeStart(fenced=False), *map(CodeLine, ("a", "", "", "  b")), Blank(), words("c")],
        ),
        ("a\n    b", [words("a\nb")]),
        ("-     a", [CodeStart(fenced=False, within=(BULLET,)), CodeLine("a", (IN_BULLET,))]),
        # tables
        (
            "| a | b | c |\n|:--|:-:|--:|\n| 1 | 2 | 3 | 4 |\n| 5\n\nx",
            [
                Table(
                    cells("a", "b", "c"),
                    ("left", "center", "right"),
                    (cells("1", "2", "3"), cells("5")),
                ),
                Blank(),
                words("x"),
            ],
        ),
        (
            "x\na | b\n-|-\n1 | \\|\n# y",
            [
                words("x"),
                Table(cells("a", "b"), ("left",) * 2, (cells("1", "|"),)),
                heading(1, "y"),
            ],
        ),
        ("a | b\n---|---|---", [words("a | b\n---|---|---")]),
        ("| a |\n|---|\n- b", [Table(cells("a"), ("left",), ()), words("b", BULLET)]),
        # text
        ("<b>a</b>\n\n<!-- *c* -->", [words("<b>a</b>"), Blank(), words("<!-- *c* -->")]),
        ("[a]: b\n[c][a]", [words("[a]: b\n[c][a]")]),
        ("[]()", [words("[]()")]),
    ],
)
def test_text_is_split_into_blocks(text: str, expected: list[MarkdownBlock]) -> None:
    assert blocks(text) == expected


# ---- spans -----------------------------------------------------------------------------------

B, E, S, C = ({"strong": True}, {"emphasis": True}, {"strike": True}, {"code": True})


def s(text: str, *styles: dict[str, bool], **more: Any) -> Span:
    given: dict[str, Any] = {key: True for style in styles for key in style}
    return Span(text, **given, **more)


def link(text: str, url: str, **more: Any) -> Span:
    return Span(text, url=url, **more)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*a* _b_", [s("a", E), s(" "), s("b", E)]),
        ("**a** __b c__", [s("a", B), s(" "), s("b c", B)]),
        ("***a***", [s("a", B, E)]),
        ("***a** b*", [s("a", B, E), s(" b", E)]),
        ("**a *b* c**", [s("a ", B), s("b", B, E), s(" c", B)]),
        ("**a\nb**", [s("a\nb", B)]),
        ("a*b*c", [s("a"), s("b", E), s("c")]),
        ("*a**b*", [s("a**b", E)]),
        ("~~a~~ ~b~ ~~~c~~~", [s("a", S), s(" ~b~ ~~~c~~~")]),
        ("**a `b*` c**", [s("a ", B), s("b*", B, C), s(" c", B)]),
        ("`` a`b ``", [s("a`b", C)]),
        ("` `` `", [s("``", C)]),
        ("`  `", [s("  ", C)]),
        ("`a\nb`", [s("a b", C)]),
        ("`a", [s("`a")]),
        ("`` a`", [s("`` a`")]),
        (r"`a\`", [s("a\\", C)]),
        (r"\*a\* \`b\` \\ \a \#", [s(r"*a* `b` \ \a #")]),
        ("&amp;&lt;&copy;&#65;&#x42;&nope;&", [s("&<©AB&nope;&")]),
        # an entity is no way around: not to escape codes, not to lines
        ("&#27;[31m&#155;&#x202e;&#8203;&NewLine;|&#xd800;", [s("&#27;[31m›\ufffd\ufffd |\ufffd")]),
        # links
        ("[a](b)", [link("a", "b")]),
        ("[**a** b](c 'd')!", [link("a", "c", strong=True), link(" b", "c"), s("!")]),
        ("[a](<b c>)", [link("a", "b c")]),
        ("[a](b(c)d)", [link("a", "b(c)d")]),
        (r"[a](b\)&amp;)", [link("a", "b)&")]),
        ("[a](b", [s("[a](b")]),
        ("[a] (b)", [s("[a] (b)")]),
        ("[a](b c)", [s("[a](b c)")]),
        ("[[a](b)](c)", [s("["), link("a", "b"), s("](c)")]),
        ("[](b)", [link("b", "b")]),
        ("*[a*](b)", [s("*"), link("a*", "b")]),
        ("![a *b*](c)", [link("a b", "c", image=True)]),
        ("![a_b * **c](d)", [link("a_b * **c", "d", image=True)]),
        ("![](c)", [link("", "c", image=True)]),
        ("[![a](b)](c)", [link("a", "b", image=True), link("c", "c")]),
        ("[a ![b](c)](d)", [link("a ", "d"), link("b", "c", image=True)]),
        ("![[a](b)](c)", [link("a", "c", image=True)]),
        ("a!", [s("a!")]),
        ("<https://a.b/*c*>", [link("https://a.b/*c*", "https://a.b/*c*")]),
        ("<a@b.c>", [link("a@b.c", "mailto:a@b.c")]),
        ("see https://a.b/c_d_e?f=1.", [s("see "), link(*["https://a.b/c_d_e?f=1"] * 2), s(".")]),
        ("(https://a.b/(c))", [s("("), link(*["https://a.b/(c)"] * 2), s(")")]),
        ("**http://a.b**", [link("http://a.b", "http://a.b", strong=True)]),
        ("www.a.b, www. xhttp://a", [link("www.a.b", "www.a.b"), s(", www. xhttp://a")]),
        ("[https://a.b](https://c.d)", [link("https://a.b", "https://c.d")]),
    ],
)
def test_text_is_split_into_spans(text: str, expected: list[Span]) -> None:
    assert spans(text) == tuple(expected)


@pytest.mark.parametrize(
    "text",
    [
        *("2 * 3 * 4", "snake_case_name", "*.py", "*.py and *.md", "__init__.py", "a_b and c_d"),
        *("__init__.py and __main__.py", "__call__()", "_x", "* a *", "** a **", "a ** b ** c"),
        *("~5 and ~6", "5 < 6 > 4", "a & b", "C:\\dir\\x", "a[0] + b[1]", "f(x)[y]", "#1", "!a"),
        *("<div class='*a*'>", "</b>", "<br/>", "<!-- _a_ -->", "_(a", "x^2", "who what http wwww"),
    ],
)
def test_what_is_no_markup_stays_as_it_is(text: str) -> None:
    assert spans(text) == (Span(text),)
