"""Wording that reads as translated, or that only the authors understand, stays out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import maxmargin

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for package in ("maxmargin", "maxmargin_papers")
    for path in sorted((Path(maxmargin.__file__).parents[1] / package).rglob("*.py"))
]
# `benchmarks.md` is made from measurements, with the words of the time when they were made.
PAGES = [*ROOT.glob("*.md"), *(p for p in ROOT.glob("docs/*.md") if p.name != "benchmarks.md")]
PAGES += [*ROOT.glob("examples/*/*.py"), *ROOT.glob("examples/**/*.rst")]
PAGES += [
    path for kind in ("*.jinja", "*.js") for path in Path(maxmargin.__file__).parents[1].rglob(kind)
]
BANNED = {
    r"\b(?-i:[Nn]obody)\b": "say what is unknown or unused",
    r"\b(rows|weights) at hand\b": "data in memory; the present weights",
    r"\bfor who\b": "for data that ...",
    r"\bas by default\b": "defaults; the default",
    r"\b(is|are) no (JSON|numbers|dates|formulas)\b": "is not valid JSON; are not numbers",
    r"\bif it is said\b": "if it is given",
    r"\bat home on\b": "works on",
    r"\bwhat one gets right\b": "accuracy",
    r"\brows right\b|% right\b": "accuracy",
    r"\bpredicted (right|rightly|wrong)\b": "classified correctly; misclassified",
    r"\bLessons? learn": "events learned",
    r"\bin the last bit\b": "reads as its opposite",
    r"\belse all\b": "default: all",
    r"\breport a hole\b": "vulnerability",
    r"\btells? the label\b": "determines the label",
    r"\bwho is wrong loses\b": "experts that err",
    r"\blearns? along\b": "shadows learn from the same events",
    r"\bhow to talk to\b": "HTTP API",
    r"\bif on a terminal\b": "on a terminal",
    r"\bhave no say\b|\bhad no say\b": "play no part in",
    r"\ball rows at hand\b": "data in memory",
}
FORBIDDEN = re.compile("|".join(BANNED), re.IGNORECASE)


def wrong_words(text):
    return [found[0] for found in FORBIDDEN.finditer(" ".join(text.split()))]


def texts(path):
    """All strings of a module: messages, help and docstrings."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_list_finds_what_it_is_for():
    examples = "its labels are no numbers; Lessons learnt.; nobody asks; 95 % of the\n rows right"
    assert len(wrong_words(examples)) == 4
    assert wrong_words("the accuracy is 95 %; y contains NaN or infinity") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    assert page.name == "CHANGELOG.md" or wrong_words(page.read_text("utf-8")) == []


def test_messages_and_docstrings():
    found = {path.name: wrong for path in SOURCES if (wrong := wrong_words("; ".join(texts(path))))}
    assert found == {}


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 700
