"""The arena: cells are measured once and kept, and contenders are ranked over data sets."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from maxmargin import Perceptron
from maxmargin.datasets import make_separable
from maxmargin.evaluate import progressive

ROOT = Path(__file__).parents[2]
ROWS = 80


@pytest.fixture(scope="module")
def arena():
    """Modules of the arena, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield lambda name: importlib.import_module(f"benchmarks.arena.{name}")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A CSV file in the order of time."""
    X, y = make_separable(ROWS, 3, random_state=0)
    y[::7] = -y[::7]
    file = tmp_path_factory.mktemp("arena") / "rows.csv"
    lines = [
        f"{','.join(map(repr, row))},{label}" for row, label in zip(X.tolist(), y, strict=True)
    ]
    file.write_text("\n".join(["a,b,c,answer", *lines]))
    return file, X, y


def run(arena, file, kept, *options):
    given = ["--data", str(file), "--label", "answer", "--ordered", "--league", "streams"]
    names = ["--only", "same as last", "Perceptron"]
    arena("__main__").main([*given, *names, "--keep", str(kept), *options])
    return json.loads(kept.read_text())


@pytest.fixture(scope="module")
def kept(arena, table, tmp_path_factory):
    file = tmp_path_factory.mktemp("kept") / "arena.json"
    return file, run(arena, table[0], file)


def test_scores(kept, table):
    file, X, y = table
    cells = kept[1]["streams"][str(file)]
    accuracy = progressive(Perceptron(), X, y).accuracy
    same = np.mean(np.concatenate([[False], y[1:] == y[:-1]]))
    assert cells["Perceptron"]["accuracy"] == [pytest.approx(100.0 * accuracy, abs=1e-3)]
    assert cells["same as last"]["accuracy"] == [pytest.approx(100.0 * same, abs=1.3)]
    temporal = (accuracy - same) / (1.0 - same)
    assert cells["Perceptron"]["kappa_temporal"] == [pytest.approx(100.0 * temporal, abs=0.1)]
    assert cells["Perceptron"]["memory"] >= 0
    assert kept[1]["sessions"][0]["machine"]["numpy"]


def test_a_cell_is_measured_once_unless_it_is_to_be_refreshed(arena, kept, table, monkeypatch):
    streams, (file, before) = arena("streams"), kept
    monkeypatch.setattr(streams.Ours, "run", lambda self, data: pytest.fail("measured again"))
    monkeypatch.setattr(streams.SameAsLast, "run", lambda self, data: pytest.fail("again"))
    assert run(arena, table[0], file)["streams"] == before["streams"]
    monkeypatch.undo()
    again = run(arena, table[0], file, "--refresh")["streams"][str(table[0])]
    assert (
        again["Perceptron"]["accuracy"]
        == before["streams"][str(table[0])]["Perceptron"]["accuracy"]
    )


def test_the_page_has_what_was_kept(arena, kept, monkeypatch, tmp_path):
    page = arena("page")
    monkeypatch.setattr(page, "PAGE", tmp_path / "arena.md")
    page.render(kept[1])
    text = (tmp_path / "arena.md").read_text()
    cells = next(iter(kept[1]["streams"].values()))
    assert f"{cells['Perceptron']['accuracy'][0]:.1f}" in text
    assert "{{" not in text


def test_ranks_of_demsar(arena):
    """Table 6 of the paper has four classifiers on 14 data sets, and a difference of 1.25."""
    ranks = arena("ranks")
    assert ranks.critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    scores = {"one": {"a": 3.0, "b": 2.0, "c": 2.0}, "two": {"a": 1.0, "b": 2.0, "c": 0.0}}
    found = ranks.ranking(scores, ["a", "b", "c"])
    assert list(found.ranks.items()) == [("a", 1.5), ("b", 1.75), ("c", 2.75)]


def test_an_unknown_label_is_named(arena, table):
    with pytest.raises(
        SystemExit, match=r"--label must name a column of rows\.csv: a, b, c, answer"
    ):
        arena("datasets").load(str(table[0]), "nothing")
