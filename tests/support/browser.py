"""A real browser for tests of the page, and what it must never report."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)
DESKTOP = (1280, 860)
PHONE = (360, 740)

# Reports of the policy of the page, in a list that tests read.
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


def chromium() -> str:
    """The path of the browser; without one the test is skipped, but never in CI."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("CI needs the command chromium", pytrace=False)
        pytest.skip("there is no command chromium (Debian: apt-get install chromium)")
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser with an empty profile."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of the browser, with what went wrong on it."""

    def __init__(self, browser: Browser, own: str, **options: Any) -> None:
        width, height = options.pop("size", DESKTOP)
        self.context = browser.new_context(viewport={"width": width, "height": height}, **options)
        self.context.add_init_script(_WATCH)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self._own = own

    def _note(self, kind: str, text: str) -> None:
        # a lost connection is reported by the browser itself
        is_loss = "WebSocket" in text or "ERR_INTERNET_DISCONNECTED" in text
        if kind == "error" and not is_loss:
            self.errors.append(text)

    def _dialog(self, dialog: Any) -> None:
        self.errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def check(self) -> None:
        """Fail if a script failed, the policy reported anything, or a request went elsewhere."""
        foreign = [url for url in self.requests if not url.startswith((self._own, "blob:"))]
        assert foreign == []
        assert self.page.evaluate("window.violations") == []
        assert self.errors == []
