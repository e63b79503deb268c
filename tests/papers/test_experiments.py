"""Every experiment of the papers, in its tiny form."""

from __future__ import annotations

import json

import pytest

import maxmargin_papers.reproduction
from maxmargin_papers.reproduction import NAMES, find, listing, run
from maxmargin_papers.reproduction.cell_files import file_name
from maxmargin_papers.reproduction.experiment import NoVerdict, Printed
from maxmargin_papers.reproduction.reproduction_page import render_kept


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_tiny_form(name, measured):
    """All cells can be measured without outside data, and give each number that is asked for."""
    experiment = find(name)
    assert run([experiment], "tiny", measured, measured / "no data", 1)
    everything = json.loads((measured / "results.json").read_text(encoding="utf-8"))
    found = everything["experiments"][name]
    assert found["missing"] == []
    assert len(found["cells"]) == len(experiment.cells("tiny"))
    assert {line["verdict"] for line in found["lines"]} <= {"not compared", "not comparable"}
    assert len(found["lines"]) == len(experiment.compared)
    page = (measured / "index.html").read_text(encoding="utf-8")
    assert page.count("<section") == 1
    assert render_kept((measured / "page.json").read_text(encoding="utf-8")) == page
    if experiment.panels:
        assert "<svg" in page


@pytest.mark.parametrize("name", NAMES)
def test_declaration(name):
    experiment = find(name)
    assert experiment.name == name
    assert experiment.title
    assert not experiment.title.endswith(".")
    assert experiment.claim.endswith(".")
    assert experiment.compared if experiment.paper else experiment.found
    for one in experiment.compared:
        assert one.where
        if isinstance(one, Printed):
            assert one.column
            float(one.text)
            assert one.tolerance.why
            assert isinstance(one.tolerance, NoVerdict) or one.tolerance.part >= 0


@pytest.mark.parametrize("name", NAMES)
def test_cells(name):
    """Quick cells are full cells, so that they count for both; each has a file of its own."""
    experiment = find(name)
    full = [file_name(cell) for cell in experiment.cells("full")]
    assert len(set(full)) == len(full)
    assert {file_name(cell) for cell in experiment.cells("quick")} <= set(full)
    assert 0 < len(experiment.cells("tiny")) <= 30


def test_listing_has_a_line_for_each():
    assert [name for name, _ in listing()] == list(NAMES)


def test_unknown_name():
    with pytest.raises(ValueError, match="no experiment 'pumma-table9'; there are pumma-figure3"):
        maxmargin_papers.reproduction.reproduce(["pumma-table9"])
