"""Statements of the pages that can be checked against what they are about."""

import gzip
import inspect
import re
from html import escape
from pathlib import Path

import maxmargin
from maxmargin_papers.reproduction.report import as_markdown
from maxmargin_papers.reproduction.reproduction_page import kept_sections, render_kept
from maxmargin_papers.reproduction.verdicts import chance

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def page(name):
    return (DOCS / name).read_text("utf-8")


def cells_of(table):
    """The rows of a table in Markdown, without its head."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_learners_stand_under_the_paper_that_their_docstring_names():
    listed = page("papers.md").split("## The five papers")[1]
    bullets = re.split(r"^- ", listed, flags=re.MULTILINE)[1:]
    assert len(bullets) == 5
    for bullet in bullets:
        bullet = bullet.partition("\n\n")[0]
        (title,) = re.findall(r'"(.*?)"', bullet, re.DOTALL)
        names = re.findall(r"~maxmargin\.(\w+)", bullet)
        assert names
        for name in names:
            cited = " ".join(
                inspect.getdoc(getattr(maxmargin, name)).split("References")[1].split()
            )
            assert " ".join(title.split()).lower() in cited.lower(), (name, title)


def test_the_table_of_experiments_is_that_of_the_kept_run():
    kept = gzip.decompress((DOCS / "reproduction.json.gz").read_bytes()).decode()
    assert as_markdown(kept_sections(kept), "full") in page("papers.md")


def test_the_page_of_the_kept_run_tests_whether_failures_are_chance():
    kept = gzip.decompress((DOCS / "reproduction.json.gz").read_bytes()).decode()
    lines = [line for section in kept_sections(kept) for line in section.lines]
    found = chance(lines)
    assert escape(str(found)) in render_kept(kept)
    assert found.missed < 3 * 0.05 * found.numbers
    beyond = [(line.row, line.paper) for line in lines if line.z is not None and abs(line.z) > 5.0]
    assert ("k-best MIRA", "667") in beyond
    assert ("Perceptron", "2.26") in beyond


def test_numbers_in_the_choice_of_learners_are_on_the_pages_behind_the_links():
    checked = 0
    for _, _, evidence in cells_of(page("choose.md")):
        behind = "".join(page(name) for name in re.findall(r"\]\((\w+\.md)", evidence))
        for number in re.findall(r"\d+\.\d+", re.sub(r"`.*?`", "", evidence)):
            checked += 1
            assert number in behind, evidence
    assert checked > 5
