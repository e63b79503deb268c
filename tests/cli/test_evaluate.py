"""``maxmargin evaluate``: one learner or several, and a picture."""

from __future__ import annotations

import pytest

from maxmargin import NORMA, Perceptron
from maxmargin.evaluate import progressive

TWO = ("-a", "norma", "-a", "perceptron")


def test_report(report, folder, rows):
    X, y = rows
    said = report("evaluate", folder / "rows.svm", *TWO, "--set", "rate=0.1")
    assert said["rows"] == 300
    # The Perceptron has no rate.
    for one, clf in zip(said["learners"], [NORMA(rate=0.1), Perceptron()], strict=True):
        expected = progressive(clf, X, y)
        assert one["algorithm"] == type(clf).__name__
        assert one["mistakes"] == expected.wrong.sum()
        assert one["accuracy"] == expected.accuracy
        assert one["recent_accuracy"] == expected.recent_accuracy(said["recent"])[-1]
        assert one["updates"] == expected.updates[-1]


def test_setting_of_one_learner(report, folder, rows):
    X, y = rows
    settings = ("-s", "norma.rate=0.01", "-s", "fit_intercept=false")
    said = report("evaluate", folder / "rows.svm", *TWO, *settings)
    expected = progressive(NORMA(rate=0.01, fit_intercept=False), X, y)
    assert said["learners"][0]["updates"] == expected.updates[-1]


def test_for_people(command, folder):
    code, printed, errors = command("evaluate", folder / "rows.svm", *TWO)
    assert (code, errors) == (0, "")
    title, *lines = printed.splitlines()
    assert title.startswith(f"{folder / 'rows.svm'}, 300 rows in ")
    assert len({len(line) for line in lines}) == 1
    assert [line.split()[0] for line in lines] == ["learner", "NORMA", "Perceptron"]


def test_standard_input(report, folder, from_stdin):
    file = report("evaluate", folder / "rows.svm", *TWO)
    from_stdin(folder / "rows.svm")
    assert report("evaluate", "-", *TWO)["learners"] == file["learners"]


@pytest.mark.parametrize(("name", "magic"), [("p.png", b"\x89PNG"), ("p.svg", b"<?xml")])
def test_picture(report, folder, tmp_path, name, magic):
    pytest.importorskip("matplotlib")
    said = report("evaluate", folder / "rows.svm", *TWO, "--plot", tmp_path / name)
    assert said["plot"] == str(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_picture_of_an_unknown_kind(command, folder, tmp_path):
    pytest.importorskip("matplotlib")
    code, printed, errors = command("evaluate", folder / "rows.svm", "--plot", tmp_path / "p.doc")
    assert (code, printed) == (2, "")
    assert ".png" in errors
    assert list(tmp_path.iterdir()) == []


def test_late_labels(report, folder, rows):
    X, y = rows
    said = report("evaluate", folder / "rows.svm", "-a", "perceptron", "--delay", 20)
    expected = progressive(Perceptron(), X, y, delay=20)
    assert said["learners"][0]["mistakes"] == expected.wrong.sum()


def test_setting_that_nobody_has(command, folder):
    code, _, errors = command("evaluate", folder / "rows.svm", *TWO, "--set", "epsilom=1")
    assert code == 2
    assert errors.startswith("maxmargin: NORMA and Perceptron have no parameter 'epsilom': ")


def test_setting_of_an_absent_learner(command, folder):
    code, _, errors = command("evaluate", folder / "rows.svm", *TWO, "--set", "amira.epsilon=1")
    assert code == 2
    assert "amira is not among the algorithms norma, perceptron" in errors


def test_no_labels(command, folder):
    code, _, errors = command("evaluate", folder / "X.npy")
    assert (code, errors) == (1, f"maxmargin: {folder / 'X.npy'} has no labels.\n")
