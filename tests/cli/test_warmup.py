"""``maxmargin warmup``: what is compiled ahead is found later."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from backends import only_full
from extent import everything_or

from maxmargin.cli.warmup import Form
from maxmargin.core.numba_backend import cache

pytestmark = only_full

COMMAND = [sys.executable, "-m", "maxmargin", "warmup"]


@pytest.fixture
def warm(monkeypatch, tmp_path):
    """The command in new processes, with a cache of their own."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(folder))

    def run(*arguments):
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


@pytest.mark.slow
def test_what_is_compiled_ahead_is_found(warm):
    first = json.loads(warm("perceptron", "--rows", "dense", "--json"))
    [learner] = first["learners"]
    assert (learner["algorithm"], learner["rows"]) == ("Perceptron", ["dense"])
    assert learner["compiled"] >= 3
    assert first["bytes"] < 100_000 * learner["compiled"]
    again = json.loads(warm("perceptron", "--rows", "dense", "--json"))
    assert again["learners"][0]["compiled"] == 0
    assert (again["folder"], again["bytes"]) == (first["folder"], first["bytes"])


def test_for_people(command):
    code, printed, errors = command("warmup", "perceptron", "romma", "--rows", "dense")
    assert (code, errors) == (0, "")
    heads, *lines, folder = printed.splitlines()
    assert heads.split() == ["learner", "rows", "loops", "time"]
    assert [line.split()[:2] for line in lines] == [["Perceptron", "dense"], ["ROMMA", "dense"]]
    assert folder.startswith(f"  {cache.folder()}, ")


def test_learners_of_all_rows(report):
    said = report("warmup", "maxmargin", "--rows", "dense")
    assert [each["algorithm"] for each in said["learners"]] == ["MaxMargin"]


@pytest.mark.parametrize("form", everything_or([Form.sparse], list(Form)))
def test_other_rows_and_classes(report, form):
    options = ("--rows", form.value, "--float32", "--classes", "3")
    said = report("warmup", "pegasos", *options, "--set", "lambda_=0.5")
    assert [(each["algorithm"], each["rows"]) for each in said["learners"]] == [
        ("Pegasos", [form.value])
    ]


def test_nowhere_to_keep_it(command, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: None)
    code, printed, errors = command("warmup", "perceptron")
    assert (code, printed) == (1, "")
    assert "MAXMARGIN_CACHE_DIR" in errors


def test_a_backend_that_keeps_nothing(command, monkeypatch):
    monkeypatch.setattr("maxmargin.core.numba_backend.IS_FULL", False)
    code, printed, errors = command("warmup", "perceptron")
    assert (code, printed) == (1, "")
    assert "nothing to warm up" in errors


def test_unknown_algorithm(command):
    code, _, errors = command("warmup", "percptron")
    assert code == 2
    assert "did you mean perceptron" in errors
