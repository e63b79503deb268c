"""The inventory of the papers: all code and all tests that it names are there."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers-inventory.md"
SOURCES = (ROOT / "src" / "maxmargin", ROOT / "src" / "maxmargin_papers")
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not installed")


def items():
    """The rows of all tables: what, where in the paper, code, tests, how much of it is there."""
    if not PAGE.exists():
        return []
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [row for row in cells if row[0] not in ("item", "---")]


every_item = pytest.mark.parametrize("item", items(), ids=lambda item: item[0][:50])


@cache
def source(path):
    (found,) = [folder / path for folder in SOURCES if (folder / path).exists()]
    return found.read_text("utf-8")


def test_every_paper_has_a_table():
    assert PAGE.read_text("utf-8").count("| item | in the paper | code | test | there |") == 5
    assert len(items()) >= 75


@every_item
def test_what_is_there_has_code_and_a_test(item):
    _, place, code, tests, there = item
    assert place
    state = re.match("yes|partial: |no", there)
    assert state
    if state[0] in ("yes", "partial: "):
        assert code
        assert tests


def test_what_is_not_there_is_known():
    """Only for some p or rows; data and programs not at hand; further work; an open problem."""
    assert [item[0] for item in items() if not item[4].startswith("yes")] == [
        "the exact problem",
        '"SVM-light is the fastest"',
        '"δ = 0.1 is comparable to SVM-light, with lower margins"',
        "1-norm soft margin",
        "Hildreth's method for its projection",
        "SensIT Vehicle",
        "accuracy against rows seen",
        "dimension reduction",
        "free length: convergence where f_min γ ≤ f_max β",
        "geometric and directional margin of any hyperplane",
        "whether √(T D₂) is due to the proof",
        "regression with ν",
    ]


@every_item
def test_code_is_where_the_inventory_says(item):
    """Names in parentheses are in one of the files before them."""
    for files, names in re.findall(r"((?:`[^`]+\.py`(?:, )?)+)(?: \(([^)]*)\))?", item[2]):
        texts = [source(path) for path in re.findall(r"`([^`]+)`", files)]
        for name in re.findall(r"`(\w+)", names):
            assert any(re.search(rf"\b{name}\b", text) for text in texts), name
    assert bool(item[2]) == bool(re.search(r"\.py`", item[2]))


@every_item
def test_tests_are_where_the_inventory_says(item):
    for path, name in re.findall(r"`([^`:]+)::([^`]+)`", item[3]):
        text = (ROOT / "tests" / path).read_text("utf-8")
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), name
    assert bool(item[3]) == ("::" in item[3])


def errata():
    """The lists of errors of the papers, by paper."""
    text = PAGE.read_text("utf-8").partition("\n## Errata of the papers\n")[2]
    return dict(re.findall(r"^### (.+), errata\n\n((?:(?!###).*\n)+)", text, re.MULTILINE))


def test_every_paper_has_its_errata():
    papers = re.findall("^## (.+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert list(errata()) == papers[:-1]
    for paper, places in {
        "PUMMA": ("(12)", "(13)", "Section 3.2", "Proposition 1", "q = 1 − 1/p"),
        "AMIRA": ("Theorem 4", "Section 2.3", "Table 2"),
        "NOCApm": ("loss ≥ 0", "loss ≠ 0", "Section 3.1"),
        "Directional margins": ("(2.20)",),
        "Moving targets": ("Theorem 4", "Lemma 2"),
    }.items():
        assert all(place in errata()[paper] for place in places)


def test_errata_name_tests_that_are_there():
    named = re.findall(r"`([^`:]+\.py)::([^`]+)`", " ".join(errata().values()))
    assert len(named) > 8
    for path, name in named:
        text = (ROOT / "tests" / path).read_text("utf-8")
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), name
