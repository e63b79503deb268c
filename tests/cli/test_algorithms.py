"""The table of learners is complete, and the documentation shows it as it is."""

import re
from pathlib import Path

import maxmargin
from maxmargin.cli.algorithms import COLUMNS, as_markdown, rows, show

PAGE = Path(__file__).parents[2] / "docs" / "papers.md"


def test_every_learner_is_in_the_table():
    names = [row[0] for row in rows()]
    assert names == sorted(maxmargin.ALGORITHMS)
    assert all(len(row) == len(COLUMNS) for row in rows())
    assert all(row[1] and row[-1] for row in rows())


def test_documentation_shows_the_table():
    shown = re.search(r"--markdown -->\n(.*?)\n<!-- end -->", PAGE.read_text("utf-8"), re.DOTALL)
    assert shown is not None
    assert shown[1] == as_markdown()


def test_show_prints_every_learner(capsys):
    show()
    printed = capsys.readouterr().out
    assert all(row[0] in printed for row in rows())
