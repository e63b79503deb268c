"""What holds for every page of the papers: it is one file, and its pictures fit into it."""

import re

from maxmargin_papers.pages.svg import VARIABLES


def assert_whole(page: str) -> None:
    """Nothing else is loaded, links have targets, and pictures have the colours of the page."""
    assert not re.search(r"https?:|//[a-z]|@import|\bsrc=|<script|<link", page)
    identifiers = re.findall(r'\bid="([^"]*)"', page)
    assert len(identifiers) == len(set(identifiers))
    referred = re.findall(r'(?:url\(|href=")([^)"]*)', page)
    assert referred
    assert all(target.startswith("#") for target in referred)
    assert {target[1:] for target in referred} <= set(identifiers)
    body = page.partition("</head>")[2]
    assert "<svg" in body
    assert "<style" not in body
    assert not any(placeholder in body for placeholder in VARIABLES)
    assert not re.search(r"(fill|stroke): #", body)
