"""A real Chromium, and what a page says in it that it should not."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from needs import lack, need_package

SECONDS = 120
"""What a page is waited for at most; a busy machine needs some of it."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser; ends the test where there is none."""
    api = need_package("playwright.sync_api")
    if CHROMIUM is None:
        lack("chromium", "no Chromium here: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=1000 * SECONDS
        )
        yield browser
        browser.close()


def new_page(context: Any, **options: Any) -> Any:
    """A tab of a browser or of a context in it, which is waited for."""
    page = context.new_page(**options)
    page.set_default_timeout(1000 * SECONDS)
    return page


def troubles_of(page: Any, allowed: tuple[str, ...] = ("file:", "data:", "blob:")) -> list[str]:
    """A list that grows by the page's warnings, errors and requests to addresses not `allowed`."""
    troubles: list[str] = []
    page.on(
        "console", lambda m: troubles.append(m.text) if m.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(allowed) else troubles.append(r.url))
    return troubles
