"""The benchmarks run to their end and report what they should; how fast is not asked here."""

import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from extent import everything_or

ROOT = Path(__file__).parents[1]
FLOORS = {
    "dense-pass": 8,
    "sparse-pass": 2,
    "peers": 0,
    "cold-start": 2,
    "one-row": 6,
    "memory": 0,
    "pnorm-pass": 4,
    "schedule": 8,
    "r-of-k": 5,
    "k-best": 2,
    "noca": 2,
    "budgets": 12,
    "endless": 8,
    "moving": 14,
    "files": 5 if importlib.util.find_spec("vowpalwabbit") else 4,
    "tables": 5 if importlib.util.find_spec("river") else 4,
    "events": 3 if importlib.util.find_spec("river") else 2,
}
# `make test` runs those that take few seconds, which pass through all of the harness.
CHOSEN = everything_or(["dense-pass", "peers", "events"], list(FLOORS))
# On as few rows as possible, once, and without the processes that only repeat others.
TINY = """
import sys
from benchmarks import cold_start, endless, files, memory, moving, r_of_k
from benchmarks.__main__ import main
from benchmarks.harness import Scale
cold_start.CASES = ("dense",)
del memory.LIBRARIES["scikit-learn"]
del r_of_k.LEARNERS["ALMA(0.1), p = 2 ln n"]
r_of_k.NEEDED = (1,)
del files.SIZES["1 GB"]
endless.PARTS = moving.PARTS = 2
main(sys.argv[1:], Scale(share=0.0, rounds=1))
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmarks")
    files = {"--json": folder / "report.json", "--out": folder / "report.md"}
    options = [str(part) for pair in files.items() for part in pair]
    done = subprocess.run(
        [sys.executable, "-c", TINY, *CHOSEN, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "MAXMARGIN_DATA": str(folder)},  # no data there: soft-margin is skipped
    )
    assert done.returncode == 0, done.stderr
    return json.loads(files["--json"].read_text()), files["--out"].read_text(), done.stdout


def test_the_machine_is_described(written):
    result, page, shown = written
    for fact in ("processor", "cores", "numpy", "numba", "scikit-learn"):
        assert result["machine"][fact]
        assert fact in page
        assert fact in shown


@pytest.mark.parametrize("name", CHOSEN)
def test_report(written, name):
    result, page, shown = written
    (report,) = (one for one in result["reports"] if one["name"] == name)
    assert report["unit"] in {"s", "rows/s", "bytes"}
    assert len({(row["case"], row["contender"]) for row in report["values"]}) >= 2
    for row in report["values"]:
        assert row["values"]
        assert all(math.isfinite(value) for value in row["values"])
        assert row["contender"] in page
    assert len(report["floors"]) == FLOORS[name]
    for floor in report["floors"]:
        assert floor["values"]
        assert floor["sense"] in {">=", "<="}
        assert isinstance(floor["met"], bool)
        assert floor["what"] in page
    for peer, reason in report["skipped"].items():
        assert reason
        assert peer in page
    assert f"{name}: {report['data']}" in page
    assert f"{name}:" in shown


def test_peers_compare_ours_with_theirs(written):
    (report,) = (one for one in written[0]["reports"] if one["name"] == "peers")
    there = {row["contender"] for row in report["values"]}
    for peer in ("maxmargin Perceptron", "scikit-learn Perceptron", "scikit-learn LinearSVC"):
        assert peer in there
    for peer in ("river", "Vowpal Wabbit"):
        assert any(name.startswith(peer) for name in there | set(report["skipped"]))


def test_unknown_name_is_refused(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT)
    main = importlib.import_module("benchmarks.__main__").main
    with pytest.raises(SystemExit) as end:
        main(["no-such-benchmark"])
    assert end.value.code == 2
    assert "dense-pass" in capsys.readouterr().err
