"""``maxmargin predict``: a line per row, from files that need not be those of the model."""

from __future__ import annotations

import json
import os
import threading

import numpy as np
import pytest
from scipy import sparse

from maxmargin import load
from maxmargin.cli.predict import text_of
from maxmargin.evaluate import explain


def test_one_label_per_line(command, folder, model, rows):
    X, _ = rows
    code, printed, errors = command("predict", model, folder / "rows.svm")
    assert (code, errors) == (0, "")
    assert [int(line) for line in printed.splitlines()] == load(model).predict(X).tolist()


def test_scores_are_exact(command, folder, model, rows):
    X, _ = rows
    _, printed, _ = command("predict", model, folder / "rows.svm", "--scores")
    X = sparse.csr_matrix(X)  # sums depend on the layout
    scores = [float(line.split("\t")[1]) for line in printed.splitlines()]
    np.testing.assert_array_equal(scores, load(model).decision_function(X))


@pytest.mark.parametrize("scores", [(), ("--scores",)])
def test_one_object_per_line(command, folder, model, rows, scores):
    X, _ = rows
    _, printed, _ = command("predict", model, folder / "rows.svm", "--json", *scores)
    said = [json.loads(line) for line in printed.splitlines()]
    clf, X = load(model), sparse.csr_matrix(X)
    assert [each["label"] for each in said] == clf.predict(X).tolist()
    if scores:
        assert [each["scores"] for each in said] == clf.decision_function(X)[:, None].tolist()


def test_prediction_sets(command, folder, rows, tmp_path, model):
    X, _ = rows
    path, data = tmp_path / "sets.mm", folder / "rows.svm"
    learner = "-a", "passiveaggressive", "--coverage", "0.6"
    assert command("fit", data, *learner, "--model", path)[0] == 0
    clf = load(path)
    expected = [clf.classes_[inside].tolist() for inside in clf.predict_set(sparse.csr_matrix(X))]
    assert {len(each) for each in expected} > {1}
    _, printed, _ = command("predict", path, data, "--sets", "--json")
    assert [json.loads(line)["set"] for line in printed.splitlines()] == expected
    _, printed, _ = command("predict", path, data, "--scores", "--sets")
    last = [line.split("\t")[2] for line in printed.splitlines()]
    assert last == [",".join(map(str, each)) for each in expected]
    code, _, complaint = command("predict", model, data, "--sets")
    assert code == 2
    assert "maxmargin fit --coverage 0.9" in complaint


def test_reasons(command, folder, model, table_model, rows):
    X, _ = rows
    data = folder / "rows.svm"
    expected = [explain(load(model), row).contributions for row in sparse.csr_matrix(X)]
    code, printed, errors = command("predict", model, data, "--why", "--json")
    assert (code, errors) == (0, "")
    said = [json.loads(line)["why"] for line in printed.splitlines()]
    numbered = [{f"{int(k[1:]) + 1}": v for k, v in each.items()} for each in expected]
    assert [list(each.items()) for each in said] == [list(each.items()) for each in numbered]
    _, printed, _ = command("predict", model, data, "--scores", "--why")
    last = [line.split("\t")[2] for line in printed.splitlines()]
    assert last[0] == ",".join(f"{k}:{v:+.3g}" for k, v in numbered[0].items())
    _, printed, _ = command("predict", table_model, folder / "table.csv", "--why", "--json")
    names = {name for line in printed.splitlines() for name in json.loads(line)["why"]}
    assert {"side=left", "side=right"} <= names


def test_text_of_several_classes():
    labels, outputs = ['"a"', "é"], [[1.0, -0.5, 1e-17], [2.0, 1 / 3, 5.0]]
    plain = text_of(labels, {"scores": outputs}, as_json=False)
    assert plain == '"a"\t1.0\t-0.5\t1e-17\né\t2.0\t0.3333333333333333\t5.0\n'
    said = [
        json.loads(line) for line in text_of(labels, {"scores": outputs}, as_json=True).splitlines()
    ]
    assert said == [
        {"label": label, "scores": numbers} for label, numbers in zip(labels, outputs, strict=True)
    ]


def test_a_row_is_a_line_whatever_its_label():
    labels = ["two\nlines", "a\ttab", "\x1b[2J", "back\\slash", "no\u00a0break", "\ud800", "\u2028"]
    plain = text_of(labels, {}, as_json=False)
    assert plain.splitlines() == [
        *(
            "two\\nlines",
            "a\\ttab",
            "\\x1b[2J",
            "back\\slash",
            "no\u00a0break",
            "\\ud800",
            "\\u2028",
        )
    ]
    text = text_of(labels, {"scores": [[0.5]] * len(labels)}, as_json=True)
    assert [json.loads(line)["label"] for line in text.splitlines()] == labels
    text.encode()


def test_standard_input(command, folder, model, from_stdin):
    from_stdin(folder / "rows.svm")
    assert command("predict", model, "-") == command("predict", model, folder / "rows.svm")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_named_pipe(command, folder, model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    rows = (folder / "rows.svm").read_bytes()
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(rows,))
    writer.start()
    said = command("predict", model, tmp_path / "pipe")
    writer.join()
    assert said == command("predict", model, folder / "rows.svm")


def test_arrays_for_a_model_of_text(command, folder, model):
    text = command("predict", model, folder / "rows.svm")
    assert command("predict", model, folder / "X.npy") == text
    assert command("predict", model, folder / "rows.npz") == text


def test_columns_that_the_model_has_never_seen(command, folder, model):
    narrow = command("predict", model, folder / "rows.svm")
    assert command("predict", model, folder / "wide.svm") == narrow


def test_rows_that_lack_the_last_columns(command, folder, model, tmp_path):
    (tmp_path / "narrow.svm").write_text("0 1:2\n0 1:-2\n")
    assert command("predict", model, tmp_path / "narrow.svm") == (0, "1\n-1\n", "")


def test_table_with_empty_or_other_labels(command, folder, table_model, tmp_path):
    head, *lines = (folder / "table.csv").read_text().splitlines()
    place = head.split(",").index("answer")
    for label in ("", "another", "3"):
        cells = [line.split(",") for line in lines]
        for row in cells:
            row[place] = label
        (tmp_path / "t.csv").write_text("\n".join([head, *map(",".join, cells)]) + "\n")
        expected = command("predict", table_model, folder / "table.csv")
        assert command("predict", table_model, tmp_path / "t.csv") == expected


def test_table_without_labels(command, folder, table_model, from_stdin):
    expected = (0, "no\nyes\n", "")
    assert command("predict", table_model, folder / "unlabelled.csv") == expected
    from_stdin(folder / "unlabelled.csv")
    assert command("predict", table_model, "-") == expected


def test_missing_column(command, folder, table_model):
    code, printed, errors = command("predict", table_model, folder / "sideless.csv")
    assert (code, printed) == (1, "")
    assert "no column 'side'; there are 'size', 'answer'" in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize("name", ["rows.svm", "rows.npz"])
def test_no_table_for_a_model_of_one(command, folder, table_model, name):
    code, printed, errors = command("predict", table_model, folder / name)
    assert (code, printed) == (1, "")
    assert "the schema is that of a table" in errors


def test_arrays_with_other_columns(command, model, tmp_path):
    np.save(tmp_path / "X.npy", np.ones((2, 5)))
    code, printed, errors = command("predict", model, tmp_path / "X.npy")
    assert (code, printed) == (1, "")
    assert errors == f"maxmargin: {tmp_path / 'X.npy'} has 5 columns, the model knows 3.\n"


def test_test_data_without_labels(command, folder):
    code, _, errors = command(
        "fit", folder / "rows.npz", "-a", "perceptron", "--test", folder / "X.npy"
    )
    assert (code, errors) == (1, f"maxmargin: {folder / 'X.npy'} has no labels.\n")


@pytest.mark.parametrize("form", ["svm", "csv"])
def test_each_row_has_a_line(command, tmp_path, form):
    pytest.importorskip("pyarrow")
    if form == "svm":
        good, bad = "1 1:1 2:0.5\n", "nothing\n"
        rows = [("-1 1:-1 2:0.25\n" if k % 3 else good) for k in range(40)]
        head = ""
    else:
        good, bad = "1.5,a,yes\n", "2,b,yes,and more\n"
        rows = [("-1,b,no\n" if k % 3 else good) for k in range(40)]
        head = "x,c,y\n"
    sound, holes = tmp_path / f"sound.{form}", tmp_path / f"holes.{form}"
    sound.write_text(head + "".join(rows))
    model = tmp_path / "m.mm"
    command("fit", sound, "-a", "perceptron", "-m", model)
    whole = command("predict", model, sound)[1].splitlines()
    lost = {0, 7, 8, 30, 43}
    with_holes, expected = [], []
    lines = iter(zip(rows, whole, strict=True))
    for k in range(45):
        row, label = (bad, "?") if k in lost else next(lines)
        with_holes.append(row)
        expected.append(label)
    with_holes.append(bad)
    holes.write_text(head + "".join(with_holes))
    assert command("predict", model, holes, "--on-error", "?")[1].splitlines() == [*expected, "?"]
    plain = command("predict", model, holes)[1].splitlines()
    assert plain == ["" if label == "?" else label for label in [*expected, "?"]]
    _, printed, complaint = command("predict", model, holes, "--json")
    assert "6 rows could not be read" in complaint
    said = [json.loads(line)["label"] for line in printed.splitlines()]
    assert [label is None for label in said] == [label == "?" for label in [*expected, "?"]]
