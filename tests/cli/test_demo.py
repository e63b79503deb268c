"""``maxmargin demo``: exit codes, messages, and what it leaves behind."""

from __future__ import annotations

import re
import sys

import pytest

import maxmargin_papers.demo
from maxmargin_papers.demo import demo_problems


@pytest.fixture
def tiny_demo(monkeypatch):
    monkeypatch.setattr(
        maxmargin_papers.demo, "all_problems", lambda: [demo_problems.r_of_k(rows=60, passes=4)]
    )
    monkeypatch.setattr(maxmargin_papers.demo, "all_learners", lambda: ["Perceptron", "ROMMA"])


@pytest.fixture
def no_demo(monkeypatch):
    """Fail if the training starts."""

    def started(out):
        raise AssertionError("the training has started")

    monkeypatch.setattr(maxmargin_papers.demo, "run", started)


def test_demo_writes_the_page(command, tiny_demo, tmp_path):
    out = tmp_path / "page.html"
    code, printed, errors = command("demo", "--out", out)
    assert (code, errors) == (0, "")
    assert re.search(r"ROMMA\(delta=0\.\d+\)", printed)
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_demo_writes_into_the_current_folder(command, tiny_demo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command("demo")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["maxmargin-demo.html"]


def test_demo_writes_a_table_that_fit_reads(command, no_demo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, printed, errors = command("demo", "--files")
    assert (code, errors) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["customers.csv"]
    suggested = printed.removeprefix("Try: maxmargin ").split()
    code, printed, errors = command(*suggested)
    assert (code, errors) == (0, "")
    assert re.search(r"rows +2,000 ", printed)
    assert re.search(r"mistakes +\d+ \(\d\.", printed)  # below 10 %: the largest class has 86 %


def test_demo_overwrites_no_table(command, no_demo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "customers.csv").write_text("mine")
    code, printed, errors = command("demo", "--files")
    assert (code, printed) == (1, "")
    assert errors.startswith("maxmargin: ")
    assert "customers.csv" in errors
    assert (tmp_path / "customers.csv").read_text() == "mine"


@pytest.mark.parametrize("out", ["", "missing/page.html", "file/page.html"])
def test_unwritable_page_is_noticed_before_the_work(command, no_demo, tmp_path, out):
    (tmp_path / "file").write_text("")
    code, printed, errors = command("demo", "--out", tmp_path / out)
    assert (code, printed) == (1, "")
    assert errors.startswith(f"maxmargin: cannot write {tmp_path / out}: ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("module", "extra"), [("matplotlib", "plots"), ("jinja2", "plots"), ("rich", "cli")]
)
def test_missing_extra(command, no_demo, monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    code, printed, errors = command("demo")
    assert (code, printed) == (1, "")
    assert errors == f"maxmargin: this command needs {module}: pip install 'maxmargin[{extra}]'\n"


def interrupted(out):
    raise KeyboardInterrupt


def test_interrupt_keeps_the_old_page(command, monkeypatch, tmp_path):
    monkeypatch.setattr(maxmargin_papers.demo, "run", interrupted)
    (tmp_path / "page.html").write_text("old")
    assert command("demo", "--out", tmp_path / "page.html")[0] == 130
    assert (tmp_path / "page.html").read_text() == "old"
