"""The pages of the documentation, and the examples in them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fenced(text: str) -> list[tuple[str, str]]:
    """The blocks of a page's text in order: language ("" for commands) and content."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of one language."""
    return [text for name, text in fenced(page.read_text()) if name == language]
