"""Running: what is saved, what is reused, what is skipped."""

from __future__ import annotations

import dataclasses
import multiprocessing
from pathlib import Path

import pytest
from papers import made_up
from papers.made_up import EXPERIMENT

import maxmargin
from maxmargin_papers import data
from maxmargin_papers.reproduction import run
from maxmargin_papers.reproduction.cell_files import write_whole
from maxmargin_papers.reproduction.fingerprint import fingerprint
from maxmargin_papers.reproduction.runner import run_all
from maxmargin_papers.reproduction.verdicts import NOT_COMPARED

LIBRARY = Path(maxmargin.__file__).parent
LOADERS = Path(data.__file__).parent


@pytest.fixture
def counted(monkeypatch):
    """The made-up experiment, and the cells that it was asked to measure."""
    asked = []

    def measure(cell, tiny, data_home):
        asked.append(dict(cell))
        return made_up.measure(cell, tiny, data_home)

    # The code of a closure would change with its test: take that of the original.
    monkeypatch.setattr("maxmargin_papers.reproduction.runner.fingerprint", lambda _: "code")
    return dataclasses.replace(EXPERIMENT, measure=measure), asked


def files_below(folder):
    """All files, without times."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            found[path.relative_to(folder)] = [
                row for row in text.splitlines() if 'seconds":' not in row
            ]
    return found


def test_all_files_are_written(tmp_path):
    said = run([EXPERIMENT], "full", tmp_path, None, 1)
    decided = "1 of 2 printed numbers, 1 of 1 claims, 1 of 1 theorems, 1 of 1 fitted"
    assert said == f"made-up  {decided}; 1 undecided, 1 not comparable"
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "cells",
        "index.html",
        "page.json",
        "results.csv",
        "results.json",
        "summary.md",
    }
    assert len(list((tmp_path / "cells" / "made-up").iterdir())) == 8


def test_a_stopped_run_goes_on_and_ends_with_the_same_files(tmp_path, counted, monkeypatch):
    experiment, asked = counted
    run([experiment], "full", tmp_path / "whole", None, 1)
    measure = experiment.measure

    def stopped(cell, tiny, data_home):
        if cell == {"learner": "B", "seed": 1}:
            raise KeyboardInterrupt
        return measure(cell, tiny, data_home)

    with pytest.raises(KeyboardInterrupt):
        run(
            [dataclasses.replace(experiment, measure=stopped)],
            "full",
            tmp_path / "stopped",
            None,
            1,
        )
    kept = list((tmp_path / "stopped" / "cells" / "made-up").iterdir())
    assert len(kept) == 5
    asked.clear()
    run([experiment], "full", tmp_path / "stopped", None, 1)
    assert asked == [{"learner": "B", "seed": seed} for seed in (1, 2, 3)]
    assert files_below(tmp_path / "stopped") == files_below(tmp_path / "whole")


def test_quick_cells_count_for_the_full_run(tmp_path, counted):
    experiment, asked = counted
    run([experiment], "quick", tmp_path, None, 1)
    assert len(asked) == 4
    run([experiment], "full", tmp_path, None, 1)
    assert len(asked) == 8


def test_tiny_cells_do_not_count(tmp_path, counted):
    experiment, asked = counted
    run([experiment], "tiny", tmp_path, None, 1)
    (outcome,) = run_all([experiment], "full", tmp_path, None, 1)
    assert len(asked) == 4 + 8
    assert all(record["tiny"] is False for record in outcome.records)


def test_cells_of_other_code_do_not_count(tmp_path, counted, monkeypatch):
    experiment, asked = counted
    run([experiment], "full", tmp_path, None, 1)
    monkeypatch.setattr("maxmargin_papers.reproduction.runner.fingerprint", lambda _: "other code")
    run([experiment], "full", tmp_path, None, 1)
    assert len(asked) == 16


def test_damaged_cells_are_measured_again(tmp_path, counted):
    experiment, asked = counted
    run([experiment], "full", tmp_path, None, 1)
    path = next((tmp_path / "cells" / "made-up").iterdir())
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[:50], encoding="utf-8")
    run([experiment], "full", tmp_path, None, 1)
    assert len(asked) == 9


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "cell.json"
    write_whole(path, "old")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_whole(path, "new")
    assert path.read_text(encoding="utf-8") == "old"


@pytest.mark.slow
def test_several_processes_give_the_same_files(tmp_path):
    run([EXPERIMENT], "full", tmp_path / "one", None, 1)
    run([EXPERIMENT], "full", tmp_path / "two", None, 2)
    assert files_below(tmp_path / "one") == files_below(tmp_path / "two")
    assert multiprocessing.active_children() == []


def test_missing_data_are_told_and_the_rest_is_run(tmp_path):
    (outcome,) = run_all([EXPERIMENT], "full", tmp_path, "nowhere", 1)
    assert outcome.missing == ["b.csv not found in the folder nowhere."]
    assert len(outcome.records) == 4
    verdicts = {(line.row, line.column): line.verdict for line in outcome.lines}
    assert verdicts[("B", "error")] == NOT_COMPARED
    assert verdicts[("A", "error")] != NOT_COMPARED


def test_experiments_with_the_same_cells_share_them(tmp_path, counted):
    experiment, asked = counted
    other = dataclasses.replace(experiment, name="other", cells_of="made-up")
    first, second = run_all([experiment, other], "full", tmp_path, None, 1)
    assert len(asked) == 8
    assert first.records == second.records


# --------------------------------------------------------------------------------- fingerprints
def code_of(tmp_path, monkeypatch, text):
    """The fingerprint of `measure` in a module with this text."""
    name = f"made_up_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return fingerprint(__import__(name).measure)


ORIGINAL = """
RATE = 0.1
TITLE = "one"

def helper(x):
    return RATE * x

def measure(cell):
    return helper(cell)
"""


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (("RATE = 0.1", "RATE = 0.2"), False),
        (("RATE * x", "RATE + x"), False),
        (("helper(cell)", "helper(cell) + 1"), False),
        (('"one"', '"two"'), True),
        (("return helper", "# a comment\n    return helper"), True),
    ],
)
def test_fingerprint_follows_what_is_mentioned(tmp_path, monkeypatch, change, same):
    before = code_of(tmp_path, monkeypatch, ORIGINAL)
    after = code_of(tmp_path, monkeypatch, ORIGINAL.replace(*change))
    assert (after == before) is same


def test_fingerprint_follows_every_source_of_the_library(monkeypatch):
    """All that may be behind a number counts; what only shows numbers does not."""
    before = fingerprint(made_up.measure)
    paths = {folder: list(folder.rglob("*.py")) for folder in (LIBRARY, LOADERS)}
    texts = {path: path.read_bytes() for each in paths.values() for path in each}
    monkeypatch.setattr(Path, "rglob", lambda one, _: paths[one])
    for folder, each in paths.items():
        for path in each:
            monkeypatch.setattr(
                Path, "read_bytes", lambda one, p=path: texts[one] + b"#" * (one == p)
            )
            only_shows = path.relative_to(folder).parts[0] == "cli"
            assert (fingerprint(made_up.measure) == before) is only_shows, path
