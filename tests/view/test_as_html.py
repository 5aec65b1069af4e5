"""A session as an HTML page: whatever peers send, it stays text."""

import base64
import hashlib
import re
import time
from html.parser import HTMLParser
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sessions import session_of
from tests.support.strategies import v2_permission_requests, v2_struct_streams
from twofold.session import Session
from twofold.styled.documents import COLOURS
from twofold.view.as_html import PLAIN, Colours, html_document, is_safe_link
from twofold.view.blocks import (
    Block,
    DescribedItem,
    DiffItem,
    FooterBlock,
    HeadingBlock,
    MessageBlock,
    RemarkBlock,
    TerminalItem,
    TextItem,
    ToolCallBlock,
)
from twofold.view.diff import DiffLine
from twofold.view.markdown import Markdown
from twofold.view.timeline import outline, turn_headings
from twofold.wire import codec, v2
from twofold.wire.content import ImageContent

TAGS: Final = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section"),
    *("article", "details", "summary", "h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "ol", "li"),
    *("blockquote", "pre", "code", "span", "mark", "strong", "em", "del", "a", "img", "hr", "br"),
    *("div", "table", "thead", "tr", "th", "td", "tbody"),
}
ATTRIBUTES: Final = {
    "html": {"lang"},
    "meta": {"charset", "http-equiv", "name", "content"},
    "a": {"href", "rel"},
    "img": {"src", "alt"},
    "li": {"class", "value"},
}
VOID: Final = {"meta", "img", "hr", "br"}
CLASS = re.compile(r"[a-z_]+|[fb]-[a-z_]+|[fb]-[0-9a-f]{6}")
IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")


class Reader(HTMLParser):
    """Reads a page as a browser does, and objects to whatever we do not write ourselves."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: list[str] = []
        self.style = ""
        self.policy = ""
        self.links: list[str] = []
        self.images: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        assert set(names) <= ATTRIBUTES.get(tag, {"class"})
        values = {name: value or "" for name, value in attrs}
        for each in values.get("class", "").split():
            assert CLASS.fullmatch(each), each
        if tag == "a":
            assert re.match(r"https?://|mailto:", values["href"])
            assert values["rel"] == "noopener noreferrer"
            self.links.append(values["href"])
        if tag == "img":
            assert IMAGE.fullmatch(values["src"])
            self.images.append(values["src"])
        if values.get("http-equiv"):
            assert values["http-equiv"] == "Content-Security-Policy"
            self.policy = values["content"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("there are no comments")

    def handle_pi(self, data: str) -> None:
        raise AssertionError("there are no instructions")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError("there is no declaration but the one of the page")

    @property
    def text(self) -> str:
        return "".join(self.texts)


def read(page: str) -> Reader:
    """Read a page that may hold nothing of a peer but text."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert reader.tags.count("style") == reader.tags.count("title") == 1
    digest = base64.b64encode(hashlib.sha256(reader.style.encode()).digest()).decode()
    assert reader.policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert "url(" not in reader.style
    assert "@import" not in reader.style
    return reader


ATTACKS: Final = [
    *("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style><script>", "<!--"),
    *("</title><svg onload=alert(1)>", "]]>", "&lt;script&gt;", "' onclick='x", "<?php", "</pre>"),
    *("[x](javascript:alert(1))", "[x](JaVaScRiPt:x)", "[x](data:text/html,x)", "<b>bold</b>"),
    *("![x](https://evil.example/x.png)", '[a](https://a.example/?q="><script>)', "[x](//evil)"),
    *(
        "```html\n<script>\n```",
        "- [ ] <i>",
        "| <a> | b |\n|---|---|\n| <img> | `</td>` |",
        "> <u>",
    ),
    *("\x1b[31mred\x1b[0m", "\u202e", "\0", "\x1b]8;;javascript:x\x07y\x1b]8;;\x07", "&#x3c;"),
    "<https://a.example/'onclick='x>",
]
texts = st.lists(st.one_of(st.sampled_from(ATTACKS), st.text(max_size=8)), max_size=6).map(
    "\n".join
)
colours = st.sampled_from([PLAIN, COLOURS])


@given(v2_struct_streams(max_size=20), st.lists(v2_permission_requests(), max_size=2), colours)
def test_no_session_makes_a_page_with_anything_but_our_own_elements(
    updates: list[v2.SessionUpdate], requests: list[Any], colours: Colours
) -> None:
    session = Session("s")
    for update in updates:
        session.apply(update)
    for number, request in enumerate(requests):
        session.ask(number, codec.read(request, v2.RequestPermissionRequest))
    blocks = outline(session, turn_headings(session))
    read(html_document(blocks, colours=colours))


@given(texts, colours)
def test_no_text_of_a_peer_becomes_a_tag_an_attribute_or_a_script(
    text: str, colours: Colours
) -> None:
    session = session_with(text)
    read(html_document([HeadingBlock(text, (text,)), *outline(session)], text, colours))


def session_with(text: str) -> Session:
    """A session with the text in every place that a peer can write to."""
    data = base64.b64encode(text.encode("utf-8", "replace")).decode()
    content = {"type": "content", "content": {"type": "text", "text": text}}
    image = {"type": "image", "data": text, "mimeType": text, "uri": text}
    link = {"type": "resource_link", "uri": text, "name": text, "title": text}
    diff = {"type": "diff", "path": text, "oldText": text, "newText": f"{text}\nmore {text}"}
    blocks = [{"type": "text", "text": text}, image, link]
    updates: list[dict[str, Any]] = [
        {"sessionUpdate": kind, "messageId": kind, "content": blocks}
        for kind in ("user_message", "agent_thought", "agent_message")
    ]
    updates += [
        {
            "sessionUpdate": "terminal_update",
            "terminalId": "t",
            "command": text,
            "cwd": text,
            "output": {"data": data},
            "exitStatus": {"signal": text},
        },
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c",
            "title": text,
            "kind": text,
            "status": text,
            "locations": [{"path": text}],
            "content": [
                content,
                diff,
                {"type": "terminal", "terminalId": "t"},
                {"type": "content", "content": image},
            ],
        },
        {"sessionUpdate": "session_info_update", "title": text},
    ]
    return session_of(*updates)


@given(texts)
def test_all_words_of_the_person_are_on_the_page(text: str) -> None:
    blocks: list[Block] = [MessageBlock("user", (TextItem(text),))]
    assert "".join(text.split()) in "".join(read(html_document(blocks)).text.split())


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://a.example/b?c=d#e", True),
        ("http://a.example", True),
        ("mailto:me@a.example", True),
        ("javascript:alert(1)", False),
        ("JAVASCRIPT:alert(1)", False),
        ("java\tscript:x", False),
        (" javascript:x", False),
        ("data:text/html,x", False),
        ("file:///etc/passwd", False),
        ("//a.example", False),
        ("/a", False),
        ("https:", False),
        ("https://[", False),
        ("https://a.example/\u202eb", False),
    ],
)
def test_only_links_to_the_web_and_to_mail_can_be_followed(url: str, safe: bool) -> None:
    assert is_safe_link(url) is safe


PNG: Final = b"\x89PNG\r\n\x1a\n" + b"x" * 8


@pytest.mark.parametrize(
    ("data", "claimed", "shown"),
    [
        (PNG, "image/png", "image/png"),
        (PNG, "image/svg+xml", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg", "image/jpeg"),
        (b"GIF89a", "image/gif", "image/gif"),
        (b"RIFFxxxxWEBPVP8 ", "image/webp", "image/webp"),
        (b"<svg xmlns='x'/>", "image/svg+xml", None),
        (b"<svg/>", "image/png", None),
        (b"BMxxxx", "image/bmp", None),
        (b"", "image/png", None),
    ],
)
def test_a_picture_is_what_its_bytes_are_and_never_svg(
    data: bytes, claimed: str, shown: str | None
) -> None:
    content = ImageContent(base64.b64encode(data).decode(), claimed)
    item = DescribedItem("[image]", content)
    reader = read(html_document([MessageBlock("agent", (item,))]))
    assert [image.partition(";")[0] for image in reader.images] == (
        [f"data:{shown}"] if shown else []
    )
    assert ("[image]" in reader.text) is (shown is None)


def page(*blocks: Block, colours: Colours = COLOURS) -> str:
    return html_document(blocks, colours=colours)


def one_message(text: str) -> list[Block]:
    content = [{"type": "text", "text": text}]
    update = {"sessionUpdate": "agent_message", "messageId": "m", "content": content}
    return outline(session_of(update))[:1]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("# Title", "<h4>Title</h4>"),
        (
            "a **b** _c_ ~~d~~ `e`",
            "<p>a <strong>b</strong> <em>c</em> <del>d</del> <code>e</code></p>",
        ),
        ("a\nb", "<p>a<br>b</p>"),
        ("- a\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"),
        ("3. a\n4. b", '<ol><li value="3"><p>a</p></li><li value="4"><p>b</p></li></ol>'),
        (
            "- a\n  - b\n- c",
            "<ul><li><p>a</p><ul><li><p>b</p></li></ul></li><li><p>c</p></li></ul>",
        ),
        ("- [x] a", '<ul><li class="task">☑ <p>a</p></li></ul>'),
        ("> a\n> - b", "<blockquote><p>a</p><ul><li><p>b</p></li></ul></blockquote>"),
        ("---", "<hr>"),
        (
            "| a | b |\n|---|---|\n| c | d |",
            (
                "<table><thead><tr><th>a</th><th>b</th></tr></thead>"
                "<tr><td>c</td><td>d</td></tr></table>"
            ),
        ),
        (
            "```py\ndef x():\n```",
            (
                '<pre class="code"><code><span class="f-magenta">def </span>'
                '<span class="f-blue">x</span>():</code></pre>'
            ),
        ),
        (
            "[a](https://a.example)",
            '<a href="https://a.example" rel="noopener noreferrer">a</a>',
        ),
        ("[a](ftp://b.example)", "a (ftp://b.example)"),
        ("![a](https://a.example/b.png)", ">[image: a]</a>"),
    ],
)
def test_markdown_of_the_agent_becomes_elements(text: str, html: str) -> None:
    made = page(*one_message(text))
    read(made)
    assert html in made


def test_a_diff_marks_lines_and_the_words_that_changed() -> None:
    lines = (
        DiffLine("file", "a.txt"),
        DiffLine("hunk", "@@ -1 +1 @@"),
        DiffLine("removed", "one two three"),
        DiffLine("added", "one 2 three"),
    )
    block = ToolCallBlock("✓", "completed", "edit", "Edit", (), (DiffItem(lines),), ())
    made = page(block)
    assert '<span class="removed">-one <mark>two</mark> three\n</span>' in made
    assert '<span class="added">+one <mark>2</mark> three\n</span>' in made


def test_a_terminal_has_the_colours_of_its_screen() -> None:
    session = Session("s")
    data = base64.b64encode(
        b"\x1b[1;32mok\x1b[0m \x1b[38;2;1;2;3mx\x1b[0m \x1b[7my\x1b[0m"
    ).decode()
    update = {"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": data}}
    session.apply(codec.read(update, v2.SessionUpdate))
    item = TerminalItem(
        "make",
        None,
        "",
        received=True,
        exit="exit code 2",
        succeeded=False,
        terminal_id="t",
        terminal=session.terminals["t"],
    )
    made = page(ToolCallBlock("✗", "failed", "execute", "Run", (), (item,), ()))
    assert '<span class="command">$ make</span>' in made
    assert '<span class="bold f-green">ok</span> <span class="f-010203">x</span>' in made
    assert '<span class="f-ground b-text">y</span>' in made
    assert ".f-010203{color:#010203}" in made
    assert "exit code 2" in made


def test_a_thought_is_closed_and_shows_its_first_words() -> None:
    made = page(MessageBlock("thought", (TextItem("Let me see.\nWell."),)))
    assert '<details class="thought"><summary>Thought: Let me see. Well.</summary>' in made


def test_headings_remarks_and_the_state_are_shown() -> None:
    blocks: list[Block] = [
        HeadingBlock("Fix it", ("demo", "/w")),
        HeadingBlock("Turn 1", ("12:00",), 2),
        RemarkBlock("cancelled", "warning"),
        FooterBlock(None, (), "5 tokens", "idle", cancelling=False),
    ]
    made = page(*blocks)
    assert "<title>Fix it</title>" in made
    words = " ".join([text for each in read(made).texts if (text := each.strip())])
    assert words == "Fix it Fix it demo · /w Turn 1 12:00 cancelled 5 tokens · idle"


def test_a_message_of_many_groups_costs_what_it_holds() -> None:
    def seconds(count: int) -> float:
        reader = Markdown()
        block = MessageBlock("agent", (*reader.feed("> a\n\n" * count), *reader.end()))
        begun = time.process_time()
        html_document([block])
        return time.process_time() - begun

    few = min(seconds(4_000) for _ in range(3))
    assert seconds(16_000) < 8 * few, "16 times as much if every group looks at all that follows"
