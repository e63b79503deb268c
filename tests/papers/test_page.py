"""The page: complete, of one file, and laid out well on a phone and on a desk."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest
from papers.made_up import EXPERIMENT
from papers.whole_pages import assert_whole

from maxmargin_papers.reproduction.experiment import Results
from maxmargin_papers.reproduction.reproduction_page import render, sections_of
from maxmargin_papers.reproduction.runner import Outcome, run_all
from maxmargin_papers.reproduction.verdicts import judge


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    return run_all([EXPERIMENT], "quick", tmp_path_factory.mktemp("cells"), None, 1)


@pytest.fixture(scope="module")
def page(outcomes):
    return render(sections_of(outcomes), "quick")


def test_page_is_whole(page):
    assert_whole(page)
    assert 'id="made-up"' in page


def test_page_opens_with_the_summary(page):
    summary = page[: page.index("<section")]
    words = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", summary))
    for said in (
        "1 of 2 printed numbers reproduced",
        "1 of 1 claims reproduced, 1 more undecided",
        "1 of 1 theorems reproduced",
        "1 of 1 fitted reproduced",
        "1 more are not comparable, and 1 are shown without a verdict.",
    ):
        assert said in words
    assert "B, error: 2.05, printed 1.10" in summary


def test_lines_show_paper_ours_runs_and_verdict(page):
    text = unescape(re.sub(r"<[^>]+>", " ", page[page.index("<section") :]))
    words = re.sub(r"[ \n]+", " ", text)  # but not thin spaces
    assert "error 1.10 1.05 ± 0.07 reproduced 2 paper 4 ± 0.23 (20 %)" in words
    assert "error 1.10 2.05 ± 0.07 not reproduced 2 paper 4 ± 0.23 (20 %)" in words
    assert "end 1.00 1.00 ± 0.00 reproduced fitted 2 paper 4" in words
    assert words.count("Made up.") == 1
    assert "updates 90\N{THIN SPACE}000 1\N{THIN SPACE}000 ± 0 not compared 4 other ways." in words
    assert "Claims: sentences of the paper, not printed numbers." in words
    assert "A makes fewer errors Table 0 1.05 against 2.05 reproduced" in words
    assert "nobody knows Table 0 too few runs undecided" in words
    assert "A < 2 B Theorem 0 1.05 against 2.05 reproduced theorem" in words
    assert "C is best Table 0 1.05 against 2.05 not comparable no such C." in words


def test_sections_say_what_was_run(outcomes, page, tmp_path):
    assert "Quick run: 4 of the 8 measurements of a full one. Measured on 2" in page
    assert "The paper’s numbers are means of 4 runs." in page
    full = render(sections_of(run_all([EXPERIMENT], "full", tmp_path, None, 1)), "full")
    assert "Full run: 8 measurements." in full
    assert "maxmargin reproduce made-up --quick" in page
    assert "--quick" not in full


def test_stand_ins_have_no_printed_numbers_beside_them():
    def measure(cell, tiny, data_home):
        return {**EXPERIMENT.measure(cell, tiny, data_home), "stand_in": "generated rows"}

    other = replace(EXPERIMENT, measure=measure)
    cells = [(cell, other.measure(cell, False, None)) for cell in other.cells("full")]
    records = [{"cell": cell, "numbers": numbers} for cell, numbers in cells]
    lines = judge(other, Results(cells), "full")
    page = render(sections_of([Outcome(other, records, lines, [])]), "full")
    assert page.count("Generated rows") == 1
    assert ">1.15</td>" in page
    assert not any(number in page for number in ("1.10<", "90\N{THIN SPACE}000"))
    assert "A makes fewer errors" in page
    assert "<th>paper</th>" not in page


def test_texts_are_escaped(page):
    assert "Two &lt;made-up&gt; learners" in page
    assert "&lt;nothing&gt;" in page
    assert "<nothing>" not in page


def test_quick_pages_say_so(outcomes, page):
    assert "the quick version" in page
    assert "the quick version" not in render(sections_of(outcomes), "full")


def test_what_is_missing_is_told(tmp_path):
    outcomes = run_all([EXPERIMENT], "quick", tmp_path, "nowhere", 1)
    page = render(sections_of(outcomes), "quick")
    assert "<b>Partly skipped.</b> b.csv not found in the folder nowhere." in page
