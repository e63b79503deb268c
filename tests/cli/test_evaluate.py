"""``maxmargin evaluate``: one learner or several, and a picture."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, log_loss, roc_auc_score

from maxmargin import (
    NOCA,
    NORMA,
    ConformalClassifier,
    PassiveAggressive,
    Perceptron,
    load,
    save,
    streams,
)
from maxmargin.certificates.directed_rounding import text_down
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


def test_prediction_sets(command, report, folder, rows):
    X, y = rows
    learner = "-a", "passiveaggressive", "--coverage", "0.6"
    said = report("evaluate", folder / "rows.svm", *learner)["learners"][0]["prediction_sets"]
    expected = progressive(ConformalClassifier(PassiveAggressive(), coverage=0.6), X, y)
    assert said["coverage"] == expected.covered.mean()
    assert said["mean_size"] == expected.set_sizes.mean()
    assert said["answered"] == expected.answered
    assert said["answered_accuracy"] == expected.answered_accuracy
    _, printed, _ = command("evaluate", folder / "rows.svm", *learner)
    assert f"Prediction sets of PassiveAggressive: {100 * said['coverage']:.2f} %" in printed
    fitted = report("fit", folder / "rows.svm", *learner)["coverage"]
    assert fitted["target"] == 0.6
    assert abs(fitted["observed"] - 0.6) <= fitted["bound"]
    _, printed, _ = command("fit", folder / "rows.svm", *learner)
    assert f"coverage {text_down(fitted['observed'], 4)} of 300 rows" in printed


def test_setting_of_one_learner(report, folder, rows):
    X, y = rows
    settings = ("-s", "norma.rate=0.01", "-s", "fit_intercept=false")
    said = report("evaluate", folder / "rows.svm", *TWO, *settings)
    expected = progressive(NORMA(rate=0.01, fit_intercept=False), X, y)
    assert said["learners"][0]["updates"] == expected.updates[-1]


def test_for_people(command, folder, rows):
    code, printed, errors = command("evaluate", folder / "rows.svm", *TWO)
    assert (code, errors) == (0, "")
    title, *table = printed.splitlines()
    assert title.startswith(f"{folder / 'rows.svm'}, 300 rows in ")
    assert len({len(line) for line in table[:3]}) == 1
    assert [line.split()[0] for line in table[:3]] == ["learner", "NORMA", "Perceptron"]
    assert re.fullmatch(
        r"  Baselines: predicting the largest class 5\d\.\d\d %, repeating the last label "
        r"\d\d\.\d\d %\.",
        table[3],
    )
    most = progressive(NORMA(), *rows).error_bound().bound
    assert 100.0 * most <= float(table[1].split()[4]) < 100.0 * most + 0.01
    assert table[4].startswith("  Error at most: the expected error with probability 95 %")
    for name, (head, *classes) in {
        "NORMA": table[6:9],
        "Perceptron": table[10:13],
    }.items():
        assert name in (table[5], table[9])
        assert head.split() == ["class", "rows", "recall", "predicted", "precision"]
        assert [line.split()[0] for line in classes] == ["-1", "1"]
    assert len(table) == 13


def test_beside_a_guess(report, folder, rows):
    X, y = rows
    said = report("evaluate", folder / "rows.svm", "-a", "perceptron")
    assert said["largest_class"] == max(np.mean(y == 1), np.mean(y == -1))
    assert said["repeating"] == np.sum(y[1:] == y[:-1]) / y.size
    assert not said["weighted"]
    (one,), expected = said["learners"], progressive(Perceptron(), X, y)
    assert one["confusion"] == expected.confusion.tolist()
    for name in ("balanced_accuracy", "auc", "classes"):
        assert one[name] == expected.report()[name]


def test_a_learner_that_says_one_class_only(command, tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1\n" * 40 + "-1 1:1\n")
    _, printed, _ = command("evaluate", tmp_path / "rows.svm", "-a", "perceptron")
    assert (
        "Warning: Perceptron predicts 1 for every row; --class-weight balanced may help." in printed
    )


def test_many_classes_have_no_lines(command, report, tmp_path):
    lines = [f"{k % 11} {k % 11 + 1}:1\n" for k in range(110)]
    (tmp_path / "rows.svm").write_text("".join(lines))
    _, printed, _ = command("evaluate", tmp_path / "rows.svm", "-a", "perceptron")
    assert "predicted" not in printed
    assert "AUC" not in printed
    said = report("evaluate", tmp_path / "rows.svm", "-a", "perceptron")
    assert len(said["learners"][0]["classes"]) == 11


# ---------------------------------------------------------------------------------- test of a model
def test_a_model_is_tested(report, command, folder, model, rows):
    X, y = rows
    predicted = load(model).predict(X)
    said = report("evaluate", model, folder / "rows.svm")
    assert (said["model"], said["algorithm"], said["rows"]) == (str(model), "Perceptron", 300)
    assert said["confusion"] == confusion_matrix(y, predicted).tolist()
    assert said["accuracy"] == np.mean(y == predicted)
    assert said["auc"] == pytest.approx(roc_auc_score(y, load(model).decision_function(X)))
    assert said["log_loss"] is None
    code, printed, errors = command("evaluate", model, folder / "rows.svm")
    assert (code, errors) == (0, "")
    assert f"{model}, Perceptron" in printed
    assert "on 300 test rows; largest class: " in printed


def test_a_model_is_tested_on_standard_input(report, folder, model, from_stdin):
    file = report("evaluate", model, folder / "rows.svm")
    from_stdin(folder / "rows.svm")
    pipe = report("evaluate", model, "-")
    assert pipe["confusion"] == file["confusion"]


def test_a_model_of_a_table(report, folder, table_model):
    said = report("evaluate", table_model, folder / "table.csv")
    assert [each["label"] for each in said["classes"]] == ["no", "yes"]
    assert said["rows"] == 300


def test_log_loss_of_a_model_with_probabilities(report, command, folder, rows, tmp_path):
    X, y = rows
    clf = NOCA(max_components=5).fit_stream(streams.open(folder / "rows.svm"))
    save(clf, tmp_path / "m.mm")
    said = report("evaluate", tmp_path / "m.mm", folder / "rows.svm")
    assert said["log_loss"] == pytest.approx(log_loss(y, clf.predict_proba(X)))
    _, printed, _ = command("evaluate", tmp_path / "m.mm", folder / "rows.svm")
    assert f"; log loss {said['log_loss']:.4f}" in printed


@pytest.mark.parametrize(
    "options",
    [("-a", "alma"), ("--set", "C=1"), ("--delay", 3), ("--plot", "p.png"), ("--weight", 0)],
    ids=lambda options: options[0],
)
def test_options_of_learning_with_a_model(command, folder, model, options):
    code, printed, errors = command("evaluate", model, folder / "rows.svm", *options)
    assert (code, printed) == (2, "")
    name = "--algorithm" if options[0] == "-a" else options[0]
    assert errors.startswith(f"maxmargin: {name} is for learning: a model that is tested")


def test_a_model_alone(command, model):
    code, printed, errors = command("evaluate", model)
    assert (code, printed) == (2, "")
    expected = f"{model} is a model; to test it: maxmargin evaluate {model} DATA"
    assert errors == f"maxmargin: {expected}\n"


def test_files_that_do_not_fit(command, folder, model):
    code, _, errors = command("evaluate", folder / "rows.svm", folder / "rows.svm")
    assert (code, "not a maxmargin file" in errors) == (1, True)
    code, _, errors = command("evaluate", model, folder / "rows.svm", folder / "rows.svm")
    assert (code, "takes DATA, or MODEL and DATA; got 3 files" in errors) == (2, True)
    code, _, errors = command("evaluate", model, folder / "empty.svm")
    assert (code, errors.endswith("there are no rows.\n")) == (1, True)


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


def test_setting_of_an_absent_learner(command, folder):
    code, _, errors = command("evaluate", folder / "rows.svm", *TWO, "--set", "amira.epsilon=1")
    assert code == 2
    assert "amira is not among the algorithms norma, perceptron" in errors


def test_no_labels(command, folder):
    code, _, errors = command("evaluate", folder / "X.npy")
    assert (code, errors) == (1, f"maxmargin: {folder / 'X.npy'} has no labels.\n")
