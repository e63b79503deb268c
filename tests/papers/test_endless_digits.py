"""The pass over endless digits: what it averages, what it says, and where it cannot run."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from maxmargin.kernels.cuda import cupy_library
from maxmargin_papers.experiments.endless_digits import EXPERIMENT, found, measure
from maxmargin_papers.experiments.one_pass import one_pass
from maxmargin_papers.reproduction import find, run
from maxmargin_papers.reproduction.experiment import Missing, Results
from maxmargin_papers.reproduction.runner import run_all


class Scripted:
    """Says after block n what the n-th output is."""

    def __init__(self, outputs):
        self.outputs, self.learned, self.support_ = outputs, [], []

    def partial_fit(self, X, y, classes):
        self.learned.append((X, y))
        self.support_ = range(len(self.learned))

    def decision_function(self, X):
        return self.outputs[len(self.learned) - 1]


def test_averages_are_over_the_last_quarter_of_what_was_seen():
    random = np.random.RandomState(0)
    outputs = random.normal(size=(20, 50, 3))
    classes, y_test = np.array([2, 5, 7]), random.choice([2, 5, 7], 50)
    blocks = [(n, [0] * 10) for n in range(20)]
    clf = Scripted(outputs)
    waits = []
    curves = one_pass(clf, blocks, classes, None, y_test, wait=lambda: waits.append(1))
    assert clf.learned == blocks
    assert len(waits) == 3 * 20
    assert curves["seen"] == list(range(10, 210, 10))
    assert curves["supports"] == list(range(1, 21))

    def errors(mean):
        return 100 * np.mean(classes[mean.argmax(axis=1)] != y_test)

    assert curves["last"] == [errors(each) for each in outputs]
    # After n blocks those are averaged of which more than three quarters of n were seen.
    expected = [errors(outputs[int(0.75 * n) : n].mean(axis=0)) for n in range(1, 21)]
    assert curves["averaged"] == expected
    for name in ("making", "learning", "testing"):
        assert np.all(np.diff(curves[name]) >= 0.0)


def test_tiny_form_learns_and_is_seeded():
    first, again, other = (measure({"device": "cpu", "seed": s}, True, None) for s in (0, 0, 1))
    assert first["seen"] == [100, 200, 300, 400]
    assert first["last"] == again["last"] != other["last"]
    assert first["averaged in the end"] == first["averaged"][-1]
    assert first["last"][-1] < first["last"][0]
    assert first["last"][-1] < 30.0


def test_what_came_out_is_said():
    numbers = {"seen": 100, "supports": 7, "making": 1.0, "learning": 2.0}
    records = [
        (
            {"device": "cpu", "seed": seed},
            {
                f"{k} in the end": v
                for k, v in {**numbers, "last": 2.0 + seed, "averaged": 1.0}.items()
            },
        )
        for seed in range(2)
    ]
    one, two = found(Results(records))
    assert one.startswith("100 digits on the host: 1.00 % of the test digits are wrong")
    assert "2.50 % by the last ones (2.00, 3.00)" in one
    assert two == "A pass took 3 to 3 s and kept 7 to 7 supports."


def test_without_a_gpu_its_runs_are_skipped_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "cupy", None)
    cupy_library.cache_clear()
    with pytest.raises(Missing, match=r"needs a GPU and CuPy: .*maxmargin"):
        measure({"device": "cuda", "seed": 0}, True, None)
    there = replace(EXPERIMENT, cells=lambda scale: [{"device": "cuda", "seed": 0}])
    said = run([there], "quick", tmp_path, None, 1)
    assert said.startswith("endless-digits  skipped: It needs a GPU and CuPy")
    assert "Skipped" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_cells():
    devices = [cell["device"] for cell in EXPERIMENT.cells("full")]
    assert devices == ["cuda"] * 3 + ["cpu"] * 3
    assert {cell["device"] for cell in EXPERIMENT.cells("quick")} == {"cpu"}


def test_its_section_says_what_came_out_and_names_no_paper(measured):
    said = run([find("endless-digits")], "tiny", measured, measured / "no data", 1)
    assert said.startswith("endless-digits  400 digits on the host: ")
    page = (measured / "index.html").read_text(encoding="utf-8")
    assert "What came out" in page
    assert "The paper’s conclusion" not in page
    (outcome,) = run_all([find("endless-digits")], "tiny", measured, None, 1)
    assert len(outcome.found) == 2
