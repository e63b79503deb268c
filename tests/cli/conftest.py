"""The command in this process and in others, and small files to try it on."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from maxmargin.cli import main

ROWS = 300


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command; the exit code, what it printed, and what it complained about."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["maxmargin", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def report(command):
    """What the command reports as JSON, if all is well."""

    def run(*arguments):
        code, printed, errors = command(*arguments, "--json")
        assert (code, errors) == (0, "")
        assert printed.count("\n") == 1
        return json.loads(printed)

    return run


@pytest.fixture
def from_stdin(monkeypatch):
    """Let the command read a file by standard input."""
    opened = []

    def read(path):
        opened.append(path.open())
        monkeypatch.setattr(sys, "stdin", opened[-1])

    yield read
    for file in opened:
        file.close()


@pytest.fixture
def python():
    """Run a program in a process of its own."""

    def start(program, *arguments, **options):
        environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
        return subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            **options,
        )

    return start


@pytest.fixture(scope="session")
def rows():
    """Points of the plane with a gap between two classes, of which one is labelled +1."""
    random = np.random.default_rng(1)
    X = random.normal(size=(ROWS, 3)).round(3)
    X[:, 0] += np.where(X[:, 0] > 0, 1.0, -1.0)
    return X, np.where(X[:, 0] > 0, 1, -1)


@pytest.fixture(scope="session")
def folder(rows, tmp_path_factory):
    """The same rows in many formats, and what is wrong with some."""
    X, y = rows
    folder = tmp_path_factory.mktemp("data")
    (folder / "rows.svm").write_text(svmlight(X, y))
    (folder / "wide.svm").write_text(svmlight(np.hstack([X, X]), y))
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    np.savez(folder / "rows.npz", X=X, y=y)
    lines = [
        f"{x[1]},{'left' if label < 0 else 'right'},{'no' if label < 0 else 'yes'}"
        for x, label in zip(X, y, strict=True)
    ]
    (folder / "table.csv").write_text("\n".join(["size,side,answer", *lines, ""]))
    (folder / "headless.csv").write_text("\n".join([*lines, ""]))
    (folder / "unlabelled.csv").write_text("size,side\n0.5,left\n0.5,right\n")
    (folder / "sideless.csv").write_text("size,answer\n0.5,no\n")
    (folder / "empty.svm").write_text("")
    (folder / "bad.svm").write_text("+1 1:2\n-1 1:x\n-1 1:-1\n")
    return folder


def svmlight(X, y):
    return "".join(
        f"{label:+d} {' '.join(f'{column}:{value}' for column, value in enumerate(x, 1))}\n"
        for x, label in zip(X.tolist(), y.tolist(), strict=True)
    )


@pytest.fixture(scope="session")
def model(rows, folder):
    """A model of rows.svm."""
    return _saved(folder / "rows.svm", folder / "model.mm")


@pytest.fixture(scope="session")
def table_model(folder):
    """A model of table.csv."""
    pytest.importorskip("pyarrow")
    from maxmargin.streams import Recipe

    recipe = Recipe(scale=False, missing="error")
    return _saved(folder / "table.csv", folder / "table.mm", label="answer", recipe=recipe)


def _saved(data, path, **options):
    from maxmargin import Perceptron, save, streams

    save(Perceptron().fit_stream(streams.open(data, **options)), path)
    return path
