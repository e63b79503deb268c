"""The page: complete, of one file, and laid out well on a phone and on a desk."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape

import pytest
from papers.made_up import EXPERIMENT
from papers.whole_pages import assert_whole

from maxmargin_papers.reproduction.experiment import Results
from maxmargin_papers.reproduction.figures import Panel, as_svgs
from maxmargin_papers.reproduction.reproduction_page import render, sections_of
from maxmargin_papers.reproduction.runner import Outcome, run_all
from maxmargin_papers.reproduction.verdicts import judge

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


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


def test_contents_have_every_experiment(page):
    (contents,) = re.findall(r"<nav.*?</nav>", page, flags=re.DOTALL)
    assert re.findall(r'href="#([^"]*)"', contents) == ["top", "made-up"]


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


def test_pictures_of_the_same_quantities_have_the_same_axes():
    def panel(height, label):
        settings = {"xlabel": "passes", "ylabel": label}
        return Panel(label, lambda axes: axes.plot([1, 2], [0.0, height]), settings, None)

    def ticks(svg):
        return re.findall(r">([\d.−]+)</text>", svg)

    small, large, other = as_svgs([panel(1.0, "error"), panel(8.0, "error"), panel(1.0, "time")])
    assert ticks(small) == ticks(large)
    assert ticks(other) != ticks(large)


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


LOOK = """
<script>
addEventListener("load", () => {
  const links = [...document.querySelectorAll("a[href]")].map(a => a.getAttribute("href"));
  const report = {
    width: innerWidth,
    content: document.scrollingElement.scrollWidth,
    pictures: [...document.querySelectorAll("svg, img")].map(p => p.getBoundingClientRect().width),
    broken: [...document.images].filter(image => !image.naturalWidth).length,
    dead: links.filter(to => !to.startsWith("#") || !document.getElementById(to.slice(1))),
    links: links.length,
    cut: [...document.querySelectorAll("td.verdict")].filter(cell => {
      const box = cell.getBoundingClientRect();
      return box.left < 0 || box.right > innerWidth;
    }).length,
    verdicts: document.querySelectorAll("td.verdict").length,
    contents: getComputedStyle(document.querySelector("nav")).display,
  };
  parent.postMessage(JSON.stringify(report), "*");
});
</script>
"""
# A window cannot be as narrow as a phone, a frame can.
FRAME = """<!doctype html>
<script>addEventListener("message", event => {{ report.textContent = event.data; }});</script>
<iframe src="page.html" style="width: {width}px; height: 900px; border: 0"></iframe>
<pre id="report"></pre>
"""


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
@pytest.mark.parametrize("width", [360, 1280])
def test_page_in_a_browser(page, width, tmp_path):
    (tmp_path / "page.html").write_text(page.replace("</body>", LOOK + "</body>"), encoding="utf-8")
    (tmp_path / "frame.html").write_text(FRAME.format(width=width), encoding="utf-8")
    report = looked_at(tmp_path / "frame.html", tmp_path)
    assert report["width"] == width
    assert report["content"] <= width
    assert report["broken"] == 0
    assert report["pictures"]
    assert min(report["pictures"]) > 200
    assert report["links"] >= 2
    assert report["dead"] == []
    assert report["verdicts"] == 8
    assert report["cut"] == 0
    assert report["contents"] == ("block" if width > 1200 else "none")


def looked_at(path, home):
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={home / 'profile'}", "--window-size=1400,1000"]
    command += ["--virtual-time-budget=2000", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = re.search(r'<pre id="report">(.*?)</pre>', done.stdout)
    assert found, done.stderr
    return json.loads(unescape(found[1]))
