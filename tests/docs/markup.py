"""What a page is made of: blocks of code, headings, links and words in code type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
# Two pages only show a file of the folder above.
INCLUDED = ("changelog", "contributing")
DOCS = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem not in INCLUDED]
LEFT_OUT = re.compile(r"<!-- not run: (.+) -->\s*")


class Block(NamedTuple):
    """A block of code; one that is indented has no language, one that is run no reason."""

    language: str
    text: str
    line: int
    reason: str | None


def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8"))


def blocks(page: Path) -> Iterator[Block]:
    before = ""
    for token in tokens(page):
        if token.type in {"fence", "code_block"}:
            reason = LEFT_OUT.fullmatch(before)
            first = token.map[0] + (token.type == "fence")
            yield Block(token.info.strip(), token.content, first, reason and reason[1])
        before = token.content if token.type == "html_block" else ""


def anchors(page: Path) -> set[str]:
    """What links to this page may have behind a #, as GitHub and MyST make it of headings."""
    titles = [
        "".join(part.content for part in title.children)
        for heading, title in pairwise(tokens(page))
        if heading.type == "heading_open" and heading.tag in {"h1", "h2", "h3"}
    ]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def inline(page: Path) -> Iterator[Token]:
    for token in tokens(page):
        yield from token.children or ()


def links(page: Path) -> list[str]:
    return [token.attrs["href"] for token in inline(page) if token.type == "link_open"]


def words_of_code(page: Path) -> list[str]:
    return [token.content for token in inline(page) if token.type == "code_inline"]
