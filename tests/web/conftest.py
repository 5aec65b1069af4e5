"""The browser and the server of the tests of the page."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser import Watched, launched
from tests.support.page_server import PageServer

OpenPage: TypeAlias = Callable[..., Page]


# Not for the whole run: its event loop runs in this thread for as long as it is open, and other
# tests have loops of their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture
def server() -> Iterator[PageServer]:
    with PageServer().serving() as serving:
        yield serving


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """`open_page(url)`: a page in a profile of its own, on which nothing may go wrong."""
    made: list[Watched] = []

    def opened(url: str, **options: Any) -> Page:
        origin = "/".join(url.split("/")[:3])
        watched = Watched(browser, origin, **options)
        watched.page.set_default_timeout(20_000)
        made.append(watched)
        watched.page.goto(url)
        return watched.page

    yield opened
    try:
        for watched in made:
            watched.check()
    finally:
        for watched in made:
            watched.context.close()
