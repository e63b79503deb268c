"""The benchmarks run to their end and report what they should; how fast is not asked here."""

import importlib
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from extent import everything_or
from markupsafe import escape
from sklearn.datasets import load_digits

ROOT = Path(__file__).parents[2]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
FLOORS = {
    "dense-pass": 8,
    "sparse-pass": 4,
    "peers": 0,
    "classes": 0,
    "cold-start": 5,
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
    "files": 4 + 2 * bool(importlib.util.find_spec("vowpalwabbit")) + (CORES > 1),
    "tables": 5 if importlib.util.find_spec("river") else 4,
    "serving": 5,
    "events": 7 if importlib.util.find_spec("river") else 2,
}
# `make test` runs those that take few seconds, which pass through all of the harness.
CHOSEN = everything_or(["peers", "events"], list(FLOORS))
# On as few rows as possible, once, and without the processes that only repeat others.
TINY = """
import sys
from benchmarks import cold_start, endless, files, memory, moving, r_of_k
from benchmarks.__main__ import main
from benchmarks.harness import Scale
cold_start.FIRST_FITS = cold_start.FIRST_FITS[:1]
del memory.LIBRARIES["scikit-learn"]
del r_of_k.LEARNERS["ALMA(0.1), p = 2 ln n"]
r_of_k.NEEDED = (1,)
files.SIZES = files.SIZES[:1]
endless.PARTS = moving.PARTS = 2
main(sys.argv[1:], Scale(share=0.0, rounds=1))
"""


@pytest.fixture
def benchmarks(monkeypatch):
    """Modules of the benchmarks, by name."""
    monkeypatch.syspath_prepend(ROOT)
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def run(names, file, data):
    done = subprocess.run(
        [sys.executable, "-c", TINY, *names, "--keep", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "MAXMARGIN_DATA": str(data)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text()), done.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmarks")
    # No data there: what needs some is skipped.
    return run(CHOSEN, folder / "report.json", folder)


@pytest.fixture
def pages(written, benchmarks):
    page = benchmarks("page")
    return page.markdown(written[0]), page.html(written[0])


@pytest.mark.parametrize("name", CHOSEN)
def test_report(written, name):
    if name == "events":
        pytest.importorskip("river")
    kept, shown = written
    report = kept[name]
    assert report["unit"] in {"s", "s/row", "s/call", "rows/s", "bytes"}
    assert len({(row["case"], row["contender"]) for row in report["values"]}) >= 2
    for row in report["values"]:
        assert row["rounds"] >= 1
        assert row["low"] <= row["median"] <= row["high"]
        assert math.isfinite(row["median"])
    there = {(row["case"], row["contender"]) for row in report["values"]}
    for one in report["comparisons"]:
        assert {tuple(one["ours"]), tuple(one["peer"])} <= there
        assert math.isfinite(one["median"])
    assert report["date"]
    assert report["commit"]
    assert f"{name}: {report['data'][:40]}" in shown
    (floors,) = re.findall(rf"{name}: asked and measured(.*?)└", shown, re.DOTALL) or [""]
    assert floors.count("│ >= ") + floors.count("│ <= ") == FLOORS[name]


@pytest.mark.parametrize("name", CHOSEN)
def test_pages_tell_all_that_was_kept(written, pages, benchmarks, name):
    report = written[0][name]
    question = benchmarks("themes").BENCHMARKS[name].QUESTION
    for page in pages:
        assert page.count(question) == 2  # in the contents too
        _, _, answer = page.rpartition(question)
        for row in [*report["values"], *report["quality"]]:
            for text in (row["case"], row.get("contender", row.get("measure"))):
                assert escape(text) in answer or text in answer
        for one in report["comparisons"]:
            words = one["words"]
            assert words in answer or words.replace("'", "&#39;") in answer
        for peer in report["skipped"]:
            assert peer in answer


def test_a_report_replaces_its_older_one_and_no_other(written, benchmarks, tmp_path):
    kept, _ = written
    file = tmp_path / "report.json"
    file.write_text(json.dumps(kept | {"events": {"is": "old"}}))
    harness, store = benchmarks("harness"), benchmarks("store")
    new = harness.Report("events", "dicts", "s", {harness.Key("one", "maxmargin"): [3.0, 1.0, 2.0]})
    store.keep(file, new, store.origin(harness.QUICK))
    after = store.read(file)
    assert list(after) == list(kept)
    assert {name: after[name] for name in after if name != "events"} == {
        name: kept[name] for name in kept if name != "events"
    }
    (row,) = after["events"]["values"]
    assert row == {
        "case": "one",
        "contender": "maxmargin",
        "low": 1.5,
        "median": 2.0,
        "high": 2.5,
        "rounds": 3,
    }
    assert after["events"]["share"] == harness.QUICK.share


def test_times_as_fast(benchmarks):
    harness = benchmarks("harness")
    ours, peer = harness.Key("one", "ours"), harness.Key("one", "peer")
    pair = harness.Comparison(ours, peer, "theirs")
    values = {ours: [2.0, 4.0], peer: [6.0, 2.0]}
    for unit, times in (("s", [3.0, 0.5]), ("s/row", [3.0, 0.5]), ("rows/s", [1.0 / 3.0, 2.0])):
        assert harness.Report("events", "", unit, values).times_as_fast(pair) == times


def test_the_page_of_the_site_is_made_from_what_was_kept(benchmarks):
    kept = benchmarks("store").read(ROOT / "docs" / "benchmarks.json")
    assert kept
    made = benchmarks("page").markdown(kept)
    assert (ROOT / "docs" / "benchmarks.md").read_text("utf-8") == made


def test_rendering_measures_nothing(benchmarks, tmp_path, monkeypatch):
    main, readme = benchmarks("__main__"), benchmarks("readme")
    monkeypatch.setattr(main, "measure", None)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "kept.json"
    file.write_bytes((ROOT / "docs" / "benchmarks.json").read_bytes())
    (tmp_path / "docs").mkdir()
    for name, numbers in readme.NUMBERS.items():
        (tmp_path / name).write_text(
            readme.filled((ROOT / name).read_text("utf-8"), numbers, {}), "utf-8"
        )
    main.main(["--render", str(file)])
    assert file.with_suffix(".md").read_bytes() == (ROOT / "docs" / "benchmarks.md").read_bytes()
    for name in readme.NUMBERS:
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()
    page = (tmp_path / "maxmargin-bench.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert not re.search(r'(src|href)="(?!#)', page)  # it needs nothing else


@pytest.mark.slow
def test_benchmarks_of_a_device_print_lines_of_json(benchmarks, monkeypatch, capsys):
    device = benchmarks("device")
    X, y = load_digits(return_X_y=True)
    monkeypatch.setattr(device, "digits", lambda rows: (X[:500], y[:500], X[500:700], y[500:700]))
    arguments = ["--device", "cpu", "--rows", "1600", "--set", "gamma=0.002", "--set", "shift=0.5"]
    device.main(["endless", "budget", *arguments])
    machine, *lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert machine["device"] == "cpu"
    assert [line["benchmark"] for line in lines] == ["endless", "budget", "budget"]
    endless, *budgets = lines
    seen, supports = endless["curves"]["seen"], endless["curves"]["supports"]
    assert seen == list(range(100, 1700, 100))
    assert endless["error of the last, %"] < 20.0
    products = 2 * 64 * 100 * sum(supports[:-1])
    assert endless["products, TFLOP"] == pytest.approx(products / 1e12)
    for one in budgets:
        assert one["measured rows"] <= one["rows"] == 1600
        assert one["seconds"] > 0.0


# ------------------------------------------------------------------------------------- of documents
def measured(readme, times, share=1.0):
    """Reports with the comparisons that documents quote, so many times as fast."""
    reports = {}
    for number in quoted(readme):
        report = reports.setdefault(number.benchmark, {"share": share, "comparisons": []})
        report["comparisons"] += [
            {"ours": list(pair[0]), "peer": list(pair[1]), "median": value}
            for pair, value in (((number.peer, number.ours), 0.25), (number[1:3], times))
            if [list(pair[0]), list(pair[1])]
            not in [[one["ours"], one["peer"]] for one in report["comparisons"]]
        ]
    return reports


def quoted(readme):
    return [number for numbers in readme.NUMBERS.values() for number in numbers]


@pytest.mark.parametrize(("name", "count"), [("README.md", 3), ("docs/tables.md", 2)])
def test_the_speeds_in_documents_are_those_that_were_kept(benchmarks, name, count):
    readme, store = benchmarks("readme"), benchmarks("store")
    text, numbers = (ROOT / name).read_text("utf-8"), readme.NUMBERS[name]
    kept = store.read(ROOT / "docs" / "benchmarks.json")
    assert readme.filled(text, numbers, kept) == text
    assert text.count(readme.BEGIN) == text.count(readme.END) == 1
    assert text.count(" times** as fast as") == count
    bare = readme.filled(text, numbers, {})
    assert not re.search(r"rows a second|times\*{0,2} as fast", bare)  # no speed from elsewhere

    kept = measured(readme, 23.4)
    filled = readme.filled(readme.filled(text, numbers, measured(readme, 5.0)), numbers, kept)
    assert filled.count("**23 times**") == len(numbers) == count
    assert not readme.missing(kept)
    assert readme.filled(filled, numbers, {}) == bare
    assert name != "README.md" or len(filled.split()) <= 700


def test_documents_quote_no_smaller_run(benchmarks):
    readme = benchmarks("readme")
    quick, numbers = measured(readme, 23.4, share=0.1), quoted(readme)
    assert readme.sentences(numbers, quick) == readme.sentences(numbers, {}) == []
    assert readme.missing(quick) == [*dict.fromkeys(number.benchmark for number in numbers)]
