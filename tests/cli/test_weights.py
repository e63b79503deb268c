"""Weights of rows and of classes on the command line."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import PassiveAggressive, Perceptron, load
from maxmargin.cli import learner_options
from maxmargin.cli.errors import MISUSED
from maxmargin.evaluate import progressive


@pytest.fixture(scope="session")
def weighted(rows, folder):
    """The rows with weights, in each form, and the weights."""
    X, y = rows
    weight = np.random.default_rng(2).choice([0.0, 0.5, 1.0, 2.0], y.size)
    lines = (folder / "rows.svm").read_text().splitlines()
    (folder / "weighted.svm").write_text(
        "".join(
            line.replace(" ", f":{each} ", 1) + "\n"
            for line, each in zip(lines, weight.tolist(), strict=True)
        )
    )
    np.save(folder / "w.npy", weight)
    np.savez(folder / "weighted.npz", X=X, y=y, weight=weight)
    table = [
        f"{','.join(map(repr, x))},{each},{'no' if label < 0 else 'yes'}"
        for x, each, label in zip(X.tolist(), weight.tolist(), y.tolist(), strict=True)
    ]
    (folder / "weighted.csv").write_text("\n".join(["a,b,c,cost,answer", *table, ""]))
    return weight


SOURCES = [
    ("weighted.svm",),
    ("weighted.npz",),
    ("X.npy", "--label", "y.npy", "--weight", "w.npy"),
    ("weighted.csv", "--label", "answer", "--weight", "cost", "--no-scale"),
    ("weighted.csv", "--label", "-1", "--weight", "-2", "--no-scale"),
]


@pytest.mark.parametrize("source", SOURCES)
def test_weights_of_rows(report, folder, rows, weighted, tmp_path, monkeypatch, source):
    if source[0].endswith(".csv"):
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(folder)
    model = tmp_path / "m.mm"
    said = report("fit", *source, "-a", "perceptron", "--model", model)
    assert (said["rows"], said["features"]) == (300, 3)
    X, y = rows
    expected = Perceptron().partial_fit(X, y, [-1, 1], sample_weight=weighted)
    np.testing.assert_array_equal(load(model).coef_, expected.coef_)


def test_a_model_of_a_weighted_table_needs_no_weights(
    command, report, folder, weighted, tmp_path, from_stdin
):
    pytest.importorskip("pyarrow")
    model = tmp_path / "m.mm"
    (tmp_path / "test.csv").write_text("answer,b,a,c\nno,0,-3,0\nyes,0,3,0\n")
    options = ("--label", "answer", "--weight", "cost")
    said = report(
        *("fit", folder / "weighted.csv", *options, "-a", "perceptron"),
        *("--model", model, "--test", tmp_path / "test.csv"),
    )
    assert said["test"]["rows"] == 2
    (tmp_path / "more.csv").write_text("a,b,c\n-3,0,0\n3,0,0\n")
    assert command("predict", model, tmp_path / "more.csv") == (0, "no\nyes\n", "")


def test_rows_of_weight_0_are_left_out(command, report, tmp_path):
    data = tmp_path / "rows.svm"
    data.write_text("1:0 1:1\n" * 3 + "1 1:1\n-1 1:-1\n")
    given = ("fit", data, "-a", "perceptron")
    said = report(*given)
    assert (said["rows"], said["left_out"], said["mistakes"]) == (5, 3, 2)
    _, printed, _ = command(*given)
    assert "2 (100.00 %)" in printed
    assert "3 rows of weight 0" in printed


def test_weights_in_data_to_predict(command, folder, weighted, model):
    plain = command("predict", model, folder / "rows.svm")
    assert plain[0] == 0
    assert command("predict", model, folder / "weighted.svm") == plain
    assert command("predict", model, folder / "weighted.npz") == plain


def test_entries_are_not_taken_for_labels(command, model, tmp_path):
    path = tmp_path / "unlabelled.svm"
    path.write_text("1:0.5 2:3\n2:0.5 3:1\n")
    code, printed, errors = command("predict", model, path)
    assert (code, printed) == (1, "")
    assert errors == (
        f"maxmargin: {path}, before row 3: a label 2 with a weight, which the model does not know; "
        "do lines begin with an entry, without a label?\n"
    )


def test_first_columns_are_not_taken_for_labels(command, folder, tmp_path):
    data, model, path = tmp_path / "rows.svm", tmp_path / "m.mm", tmp_path / "unlabelled.svm"
    data.write_text("1 1:3 2:1\n2 1:-3 2:2\n")
    assert command("fit", data, "-a", "perceptron", "--model", model)[0] == 0
    path.write_text("1:0.5 2:3\n1:0.25 3:1\n")
    code, printed, errors = command("predict", model, path)
    assert (code, printed) == (1, "")
    assert "all labels have weights, and are less than the first column" in errors
    path.write_text("1:0.5 1:3\n2:0.25 1:-1\n")  # with labels and weights
    assert command("predict", model, path)[:2] == (0, "1\n2\n")


@pytest.mark.parametrize(
    ("name", "options"),
    [("weighted.svm", ()), ("X.npy", ("--label", "y.npy", "--weight", "w.npy"))],
)
def test_weights_in_evaluate(command, report, folder, rows, weighted, name, options):
    given = [folder / each if each.endswith(".npy") else each for each in options]
    arguments = ("evaluate", folder / name, *given, "-a", "passiveaggressive")
    said = report(*arguments)
    expected = progressive(PassiveAggressive(), *rows, sample_weight=weighted)
    assert said["weighted"]
    assert said["learners"][0]["mistakes"] == expected.wrong.sum()
    assert said["learners"][0]["updates"] == expected.updates[-1]
    assert progressive(PassiveAggressive(), *rows).updates[-1] != expected.updates[-1]
    assert "these counts are unweighted" in command(*arguments)[1]


def test_options_of_weights_that_cannot_be(command, folder, weighted, tmp_path):
    code, _, errors = command("fit", folder / "rows.svm", "--weight", "3")
    assert (code, errors) == (2, "maxmargin: --weight is not an option of svmlight sources.\n")
    path = tmp_path / "w.npy"
    path.write_bytes((folder / "w.npy").read_bytes())
    arguments = ("fit", folder / "X.npy", "--label", folder / "y.npy", "--weight", path)
    for option in ("--model", "--checkpoint"):
        assert command(*arguments, option, path)[0] == 2
    np.save(path, -np.ones(300))
    code, _, errors = command(*arguments)
    assert (code, errors) == (1, f"maxmargin: {folder / 'X.npy'}, row 1: the weight is negative.\n")
    pytest.importorskip("pyarrow")
    code, _, errors = command("fit", folder / "table.csv", "--label", "answer", "--weight", "cost")
    assert (code, "no column 'cost'; there are 'size'" in errors) == (1, True)


# ------------------------------------------------------------------------------ weights of classes
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("balanced", "balanced"),
        ("spam=5,ham=1", {"spam": 5, "ham": 1}),
        (" spam = 5e-1 , a=b=2", {"spam": 0.5, "a=b": 2}),
        ("-1=2,1=.5", {-1: 2, 1: 0.5}),
    ],
)
def test_what_is_typed(text, expected):
    learner = Perceptron()
    learner_options.give_class_weights([learner], text)
    assert learner.class_weight == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("balance", "takes label=number, with commas, or balanced; got 'balance'."),
        ("", "takes label=number, with commas, or balanced; got ''."),
        ("=3", "takes label=number, with commas, or balanced; got '=3'."),
        ("a=1,", "takes label=number, with commas, or balanced; got 'a=1,'."),
        ("a=1,a=2", "a class has two weights in 'a=1,a=2'."),
    ],
)
@pytest.mark.parametrize("verb", ["fit", "evaluate"])
def test_what_is_typed_wrongly(command, folder, verb, text, message):
    code, printed, errors = command(verb, folder / "rows.svm", "--class-weight", text)
    assert (code, printed) == (MISUSED, "")
    assert errors.startswith("maxmargin: --class-weight")
    assert errors.endswith(f"{message}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1=heavy", "got 'heavy' for the class 1"),
        ("1=-1", "got -1 for the class 1"),
        ("1=nan", "got nan for the class 1"),
        ("1=2,3=4", "class_weight has 3, which is not among [-1, 1]"),
    ],
)
def test_weights_that_no_class_can_have(command, folder, text, message):
    given = ("-a", "perceptron", "--class-weight", text)
    code, printed, errors = command("fit", folder / "rows.svm", *given)
    assert (code != 0, printed) == (True, "")
    assert errors.startswith("maxmargin: ")
    assert message in errors


@pytest.mark.parametrize("option", [("--class-weight", "1=3"), ("--class-weight", "1=3,-1=1")])
def test_weights_of_classes(report, folder, rows, tmp_path, option):
    model = tmp_path / "m.mm"
    report(
        "fit",
        folder / "rows.svm",
        "-a",
        "passiveaggressive",
        "--set",
        "C=0.1",
        *option,
        "--model",
        model,
    )
    X, y = rows
    clf = load(model)
    expected = type(clf)(C=0.1).partial_fit(X, y, [-1, 1], sample_weight=np.where(y > 0, 3.0, 1.0))
    assert clf.class_weight[1] == 3.0
    np.testing.assert_array_equal(clf.coef_, expected.coef_)


def test_weights_of_classes_that_a_learner_ignores(command, folder):
    for given in (("--class-weight", "1=3"), ("--set", "class_weight=balanced")):
        code, _, errors = command("fit", folder / "rows.svm", "-a", "amira", *given)
        assert code == MISUSED
        assert errors.startswith(
            "maxmargin: --class-weight has no effect on AMIRA without a soft margin"
        )
        assert "Pass --set soft_margin=1.0 or so" in errors


def test_weights_of_classes_in_evaluate(report, folder):
    said = report("evaluate", folder / "rows.svm", "-a", "perceptron", "--class-weight", "1=3")
    assert said["rows"] == 300


def test_a_checkpoint_of_other_weights_of_classes(command, report, folder, tmp_path):
    arguments = ("fit", folder / "rows.svm", "-a", "perceptron", "--checkpoint", tmp_path / "c")
    report(*arguments, "--class-weight", "1=3")
    report(*arguments, "--class-weight", "1=3")
    code, _, errors = command(*arguments, "--class-weight", "1=2")
    assert (code, "The checkpoint was made with" in errors) == (1, True)


def test_balanced_is_a_setting_as_well(command, folder, tmp_path):
    given = ("fit", folder / "rows.svm", "-a", "perceptron")
    by_option = command(*given, "--class-weight", "balanced", "--model", tmp_path / "a.mm")
    by_setting = command(*given, "--set", "class_weight=balanced", "--model", tmp_path / "b.mm")
    assert by_option[0] == by_setting[0] == 0
    one, other = load(tmp_path / "a.mm"), load(tmp_path / "b.mm")
    assert one.class_weight == other.class_weight == "balanced"
    np.testing.assert_array_equal(one.coef_, other.coef_)
