"""Links lead somewhere, and files that pages name are there."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("markdown_it")
from docs.markup import DOCS, ROOT, anchors, links, tokens, words_of_code

# The site has them, too: its own pages include them.
INCLUDED = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
PAGES = [*DOCS, *sorted(ROOT.glob("*.md"))]
each_page_of_docs = pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@each_page
def test_links_have_targets(page):
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert page not in [*DOCS, *INCLUDED] or target in DOCS, f"{link} leaves the documentation"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


def test_the_page_for_language_models_links_to_pages():
    text = (ROOT / "docs" / "llms.txt").read_text("utf-8")
    named = re.findall(r"\]\((\S+)\.html\)", text)
    assert len(named) > 10
    assert {f"{name}.md" for name in named} <= {page.name for page in DOCS}


@each_page_of_docs
def test_files_that_are_named_exist(page):
    named = [
        word for word in words_of_code(page) if re.fullmatch(r"[\w/]+/[\w.]+\.(py|md|jinja)", word)
    ]
    for name in named:
        assert any(
            (ROOT / home / name).exists()
            for home in (".", "src", "src/maxmargin", "src/maxmargin_papers")
        ), name


@each_page_of_docs
def test_a_page_begins_with_its_title_and_a_sentence(page):
    if page.stem == "index":
        pytest.skip("the first page has a layout of its own")
    kinds = [token.type for token in tokens(page)]
    assert kinds[:4] == ["heading_open", "inline", "heading_close", "paragraph_open"]


@each_page
def test_prose_is_wrapped_at_100_columns(page):
    """Tables, code, directives and what programs write cannot be wrapped."""
    text = re.sub(r"<!-- made by.*?<!-- end -->", "", page.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"`[^`\n]{60,}`", "`long`", text)
    text = re.sub(r"^ *(```|~~~).*?^ *\1", "", text, flags=re.DOTALL | re.MULTILINE)
    fixed = ("|", ":", "<", "#")
    long = [
        line
        for line in text.splitlines()
        if len(line) > 100 and not line.startswith("    ") and not line.lstrip().startswith(fixed)
    ]
    assert page.name == "benchmarks.md" or long == []  # which a program writes
