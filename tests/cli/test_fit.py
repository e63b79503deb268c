"""``maxmargin fit``: what it learns from, what it reports and what it writes."""

from __future__ import annotations

import bz2
import gzip
import json
import re

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from maxmargin import BisectionPerceptron, MaxMargin, Perceptron, load, streams
from maxmargin.streams import Recipe


def test_report_and_model(report, folder, rows, tmp_path):
    X, y = rows
    path = tmp_path / "m.mm"
    said = report("fit", folder / "rows.svm", "-a", "perceptron", "--model", path)
    expected = Perceptron().partial_fit(X, y, [-1, 1])
    assert said["algorithm"] == "Perceptron"
    assert (said["rows"], said["features"], said["classes"]) == (300, 3, [-1, 1])
    assert (said["mistakes"], said["updates"]) == (expected.n_mistakes_, expected.n_updates_)
    assert said["rows_per_second"] == pytest.approx(said["rows"] / said["seconds"], rel=0.2)
    assert said["model"] == str(path)
    np.testing.assert_array_equal(load(path).coef_, expected.coef_)


def test_for_people(command, folder, tmp_path):
    path = tmp_path / "m.mm"
    code, printed, errors = command(
        *("fit", folder / "rows.svm", "-a", "perceptron", "-m", path, "--test", folder / "rows.svm")
    )
    assert (code, errors) == (0, "")
    title, *lines = printed.splitlines()
    assert title == f"Perceptron, learned from {folder / 'rows.svm'}"
    assert re.fullmatch(r"  rows      300 in \d+\.\d\d s, [\d,]+ rows/s", lines[0])
    assert [line.split()[0] for line in lines] == [
        *("rows", "features", "classes", "passes", "mistakes", "updates"),
        *("accuracy", "error", "balanced", "-1", "1", "model"),
    ]
    assert len({re.match(r" +[-\w]+ +", line).end() for line in lines}) == 1
    assert "\x1b" not in printed


@pytest.mark.parametrize(("name", "opener"), [("rows.gz", gzip.open), ("rows.svm.bz2", bz2.open)])
def test_compressed(report, folder, tmp_path, name, opener):
    with opener(tmp_path / name, "wb") as file:
        file.write((folder / "rows.svm").read_bytes())
    plain = report("fit", folder / "rows.svm", "-a", "perceptron")
    packed = report("fit", tmp_path / name, "-a", "perceptron")
    same = ("rows", "features", "classes", "mistakes", "updates")
    assert [plain[key] for key in same] == [packed[key] for key in same]


def test_csv_with_words(report, folder, tmp_path):
    pytest.importorskip("pyarrow")
    said = report(
        *("fit", folder / "table.csv", "-a", "perceptron", "--label", "answer"),
        *("--test", folder / "table.csv"),
    )
    assert (said["features"], said["classes"]) == (5, ["no", "yes"])
    assert said["test"]["accuracy"] == 1.0
    hashed = ("--categorical", "hash", "--label", "-1")
    said = report("fit", folder / "table.csv", "-a", "perceptron", *hashed)
    assert said["features"] == 3


def test_a_model_goes_on_with_the_next_file(report, folder, tmp_path):
    pytest.importorskip("pyarrow")
    header, *lines = (folder / "table.csv").read_text().splitlines(keepends=True)
    for name, rows in (("mon", lines[:120]), ("tue", lines[120:])):
        (tmp_path / f"{name}.csv").write_text("".join([header, *rows]))
    paths = {name: tmp_path / f"{name}.mm" for name in ("mon", "tue", "both")}
    report("fit", tmp_path / "mon.csv", "-a", "perceptron", "--label", "answer", "-m", paths["mon"])
    goes_on = ("--start-from", paths["mon"], "-m", paths["tue"])
    said = report("fit", tmp_path / "tue.csv", *goes_on)
    assert (said["algorithm"], said["rows"]) == ("Perceptron", 180)
    report(
        "fit", folder / "table.csv", "-a", "perceptron", "--label", "answer", "-m", paths["both"]
    )
    assert paths["tue"].read_bytes() == paths["both"].read_bytes()


def test_csv_without_header(report, folder, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "m.mm"
    headless = (folder / "headless.csv", "--no-header", "--label", "2")
    said = report("fit", *headless, "-a", "perceptron", "-m", path, "--test", headless[0])
    assert (said["rows"], said["test"]["rows"]) == (300, 300)


@pytest.mark.filterwarnings("always::UserWarning")
def test_csv_that_begins_with_numbers(command, report, tmp_path):
    """The first line is a row, also when the model is tested; no option is needed, nor silence."""
    pytest.importorskip("pyarrow")
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2)).round(3)
    lines = [f"{u},{v},{int(u > 0)}\n" for u, v in X.tolist()]
    data, model = tmp_path / "rows.csv", tmp_path / "m.mm"
    data.write_text("".join(lines))
    fit = ("fit", data, "-a", "perceptron", "--label", "2")
    code, printed, errors = command(*fit, "-m", model, "--test", data, "--json")
    said = json.loads(printed)
    assert (code, said["rows"], said["test"]["rows"]) == (0, 60, 60)
    assert errors == (
        f"maxmargin: {data}: the first line has only numbers: it is read as data, and columns are "
        "'0', ...; use --header if it has the names, and --no-header if it is data.\n"
    )
    assert report(*fit, "--no-header")["rows"] == 60
    assert report(*fit[:-1], "-1", "--header")["rows"] == 59
    assert report("evaluate", model, data)["rows"] == 60
    code, printed, errors = command("predict", model, data)
    assert (code, printed.count("\n"), errors) == (0, 60, "")
    code, printed, errors = command("evaluate", data, "-a", "perceptron", "--label", "2", "--json")
    assert (code, json.loads(printed)["rows"]) == (0, 60)
    assert "only numbers" in errors


def test_missing_values(command, report, tmp_path):
    pytest.importorskip("pyarrow")
    lines = [
        f"{'--' if k % 10 == 3 else k % 7},{'n/a' if k == 4 else k % 5},{k % 2}\n"
        for k in range(60)
    ]
    data, model = tmp_path / "rows.csv", tmp_path / "m.mm"
    data.write_text("".join(["u,v,y\n", *lines]))
    fit = ("fit", data, "-a", "perceptron", "--kind", "u=number")
    code, _, errors = command(*fit)
    assert code == 1
    assert errors == (
        f"maxmargin: {data}, row 4, column 'u': expected a number, found '--' (--kind u=category "
        "takes the column as words, --na -- such values as missing).\n"
    )
    said = report(*fit, "--na", "--", "--na", "not known", "-m", model, "--test", data)
    assert [(one["kind"], one["missing"]) for one in said["columns"]] == [
        ("number", 6),
        ("number", 1),
    ]
    assert (said["skipped"], said["test"]["rows"]) == (0, 60)
    data.write_text("u,v\n1,not known\n--,n/a\n2,unknown\n")
    code, printed, errors = command("predict", model, data, "--on-error", "?")
    assert [line == "?" for line in printed.splitlines()] == [False, False, True]


def test_bad_cells_are_skipped_in_a_column_of_few_numbers(report, tmp_path):
    pytest.importorskip("pyarrow")
    lines = [f"{'oops' if k in (7, 8) else k % 5},{k % 2}\n" for k in range(60)]
    (tmp_path / "rows.csv").write_text("".join(["u,y\n", *lines]))
    said = report("fit", tmp_path / "rows.csv", "-a", "perceptron", "--skip-errors")
    assert (said["columns"][0]["kind"], said["skipped"], said["rows"]) == ("number", 2, 58)


def test_na_is_for_tables(command, folder):
    code, _, errors = command("fit", folder / "rows.svm", "--na", "-")
    assert (code, errors.startswith("maxmargin: --na needs a table")) == (2, True)


@pytest.mark.filterwarnings("always::UserWarning")
def test_an_identifier_is_left_out_with_a_warning(command, tmp_path):
    pytest.importorskip("pyarrow")
    random = np.random.default_rng(0)
    lines = [f"c{k},{random.normal():.3f},{k % 2}\n" for k in random.permutation(80)]
    (tmp_path / "rows.csv").write_text("".join(["user_id,x,y\n", *lines]))
    fit = ("fit", tmp_path / "rows.csv", "-a", "perceptron", "--json")
    _, printed, errors = command(*fit)
    assert [one["kind"] for one in json.loads(printed)["columns"]] == ["drop", "number"]
    assert errors == (
        "maxmargin: column 'user_id' is left out: each of the first 80 rows has its own value. If "
        "values repeat, use --kind user_id=hashed; if not, --drop user_id.\n"
    )
    for option in (("--kind", "user_id=hashed"), ("--drop", "user_id")):
        assert command(*fit, *option)[2] == ""


def test_parquet(report, folder, tmp_path):
    csv = pytest.importorskip("pyarrow.csv")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(csv.read_csv(folder / "table.csv"), tmp_path / "table.parquet")
    said = report("fit", tmp_path / "table.parquet", "-a", "perceptron", "--label", "answer")
    assert (said["rows"], said["features"], said["classes"]) == (300, 5, ["no", "yes"])


def test_numpy(report, folder):
    said = report("fit", folder / "rows.npz", "-a", "perceptron")
    assert (said["rows"], said["features"], said["classes"]) == (300, 3, [-1, 1])
    again = report("fit", folder / "X.npy", "--label", folder / "y.npy", "-a", "perceptron")
    assert again["mistakes"] == said["mistakes"]


def test_standard_input(report, folder, from_stdin):
    file = report("fit", folder / "rows.svm", "-a", "perceptron")
    from_stdin(folder / "rows.svm")
    pipe = report("fit", "-", "-a", "perceptron")
    assert pipe["data"] == "<stdin>"
    assert (pipe["rows"], pipe["mistakes"]) == (file["rows"], file["mistakes"])


def test_csv_from_standard_input(report, folder, from_stdin):
    pytest.importorskip("pyarrow")
    from_stdin(folder / "table.csv")
    said = report("fit", "-", "-a", "perceptron", "--format", "csv", "--label", "answer")
    assert (said["data"], said["rows"]) == ("<stdin>", 300)


def test_passes_until_nothing_is_left(report, folder):
    said = report("fit", folder / "rows.svm", "-a", "perceptron", "--passes", 50)
    assert 1 < said["passes"] < 50
    assert said["converged"]


def test_certificate(report, command, folder):
    settings = ("-a", "perceptron", "--set", "tol=0.99", "--passes", 20)
    said = report("fit", folder / "rows.svm", *settings)
    assert said["margin"] > 0.0
    assert 0.0 < said["certified"] <= 1.0
    assert "of the best" in command("fit", folder / "rows.svm", *settings)[1]


def test_settings(report, folder, tmp_path):
    path = tmp_path / "m.mm"
    settings = ("-s", "fit_intercept=false", "-s", "epsilon=.25", "-s", "tol=none")
    report("fit", folder / "rows.svm", "-a", "AMIRA", *settings, "-m", path)
    clf = load(path)
    assert (clf.fit_intercept, clf.epsilon, clf.tol) == (False, 0.25, None)


def test_classes_and_first_column(report, folder):
    options = ("-a", "perceptron", "--classes", "-1,1", "--zero-based", "--n-features", 7)
    said = report("fit", folder / "rows.svm", *options)
    assert (said["classes"], said["features"]) == ([-1, 1], 7)


def test_skipped_rows(report, command, folder):
    arguments = ("fit", folder / "bad.svm", "-a", "perceptron", "--skip-errors")
    said = report(*arguments)
    assert (said["rows"], said["skipped"]) == (2, 1)
    assert "skipped   1 unreadable rows" in command(*arguments)[1]


def test_finished_checkpoint(report, folder, tmp_path):
    arguments = ("fit", folder / "rows.svm", "-a", "perceptron", "--checkpoint", tmp_path / "c")
    first, second = report(*arguments), report(*arguments)
    assert second["mistakes"] == first["mistakes"]


def test_damaged_checkpoint_is_one_line(report, command, folder, tmp_path):
    arguments = ("fit", folder / "rows.svm", "-a", "perceptron", "--checkpoint", tmp_path / "c")
    report(*arguments)
    (tmp_path / "c").write_bytes(b"torn")
    code, _, errors = command(*arguments)
    assert code == 1
    assert errors.startswith(f"maxmargin: {tmp_path / 'c'}: not a maxmargin file")
    assert errors.count("\n") == 1


# ------------------------------------------------------------------------------- the model's file
@pytest.fixture
def no_learning(monkeypatch):
    """Fail if the learning starts."""

    def started(*_, **__):
        raise AssertionError("the learning has started")

    monkeypatch.setattr(Perceptron, "fit_stream", started)
    monkeypatch.setattr(streams, "open", started)


@pytest.mark.parametrize("option", ["--model", "--checkpoint"])
def test_missing_folder_is_noticed_before_the_work(command, folder, tmp_path, no_learning, option):
    path = tmp_path / "missing" / "m.mm"
    code, printed, errors = command("fit", folder / "rows.svm", "-a", "perceptron", option, path)
    assert (code, printed) == (1, "")
    assert errors == f"maxmargin: cannot write {path}: No such file or directory\n"


def test_folder_as_model(command, folder, tmp_path, no_learning):
    code, _, errors = command("fit", folder / "rows.svm", "-a", "perceptron", "-m", tmp_path)
    assert (code, errors) == (1, f"maxmargin: cannot write {tmp_path}: it is not a file\n")


@pytest.mark.parametrize("model", ["-", "rows.svm", "./rows.svm"])
def test_data_are_never_overwritten(command, folder, monkeypatch, no_learning, model):
    monkeypatch.chdir(folder)
    before = (folder / "rows.svm").read_bytes()
    code, printed, errors = command("fit", "rows.svm", "-a", "perceptron", "--model", model)
    assert (code, printed) == (2, "")
    assert errors.count("\n") == 1
    assert (folder / "rows.svm").read_bytes() == before


def test_old_model_survives_an_error(command, folder, tmp_path):
    path = tmp_path / "m.mm"
    path.write_bytes(b"old")
    assert command("fit", folder / "bad.svm", "-a", "perceptron", "--model", path)[0] == 1
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["m.mm"]


def test_links_stay_links(command, folder, tmp_path):
    """Also those to files that are not there yet."""
    (tmp_path / "disk").mkdir()
    links = [tmp_path / name for name in ("m.mm", "c")]
    for link in links:
        link.symlink_to(tmp_path / "disk" / link.name)
    for _ in range(2):
        code, _, errors = command(
            *("fit", folder / "rows.svm", "-a", "perceptron"),
            *("--model", links[0], "--checkpoint", links[1]),
        )
        assert (code, errors) == (0, "")
        assert all(link.is_symlink() for link in links)
        there = sorted(path.name for path in (tmp_path / "disk").iterdir())
        assert there == ["c", "m.mm"]
    code, _, errors = command("fit", folder / "bad.svm", "-a", "perceptron", "--model", links[0])
    assert code == 1
    assert links[0].is_symlink()


def test_rows_without_names_can_be_scaled(command, report, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    data, model = ("X.npy", "--label", "y.npy"), tmp_path / "m.mm"
    said = report("fit", *data, "-a", "perceptron", "--scale", "--model", model)
    assert {each["kind"] for each in said["columns"]} == {"number"}
    bare = report("fit", *data, "-a", "perceptron")
    assert (said["features"], bare["columns"]) == (bare["features"], None)
    assert said["mistakes"] != bare["mistakes"]
    assert load(model).recipe_.get_feature_names_out().tolist() == ["x0", "x1", "x2"]
    tested = report("evaluate", model, "rows.npz")
    assert tested["accuracy"] > tested["largest_class"]
    code, _, errors = command("fit", "rows.svm", "--scale")
    assert (code, "--scale takes no sparse rows" in errors) == (2, True)


def test_a_model_that_is_not_saved_is_discarded(command, folder):
    _, printed, _ = command("fit", folder / "rows.svm", "-a", "perceptron")
    assert printed.splitlines()[-1] == "  model     discarded: --model FILE saves it"


@pytest.mark.parametrize("learner", [MaxMargin(tol=1e-4), BisectionPerceptron(random_state=0)])
def test_learners_of_all_rows(report, folder, rows, tmp_path, learner):
    X, y = rows
    path, name = tmp_path / "m.mm", type(learner).__name__
    setting = "tol=1e-4" if name == "MaxMargin" else "random_state=0"
    said = report(
        *("fit", folder / "rows.svm", "-a", name, "--set", setting, "-m", path),
        *("--test", folder / "rows.svm"),
    )
    expected = learner.fit(X, y)
    assert (said["algorithm"], said["rows"], said["classes"]) == (name, 300, [-1, 1])
    assert said["test"]["accuracy"] == expected.score(X, y)
    np.testing.assert_allclose(load(path).coef_, expected.coef_, rtol=1e-6)


def test_a_table_for_a_learner_of_all_rows(command, report, folder, tmp_path):
    pd, path = pytest.importorskip("pandas"), tmp_path / "m.mm"
    table = folder / "table.csv"
    said = report("fit", table, "-a", "maxmargin", "--label", "answer", "-m", path, "--test", table)
    frame = pd.read_csv(table)
    X, y = frame.drop(columns="answer"), frame["answer"]
    expected = make_pipeline(Recipe(), MaxMargin()).fit(X, y)
    assert said["rows"] == len(frame)
    assert said["test"]["accuracy"] == pytest.approx(expected.score(X, y))
    clf = load(path)
    np.testing.assert_allclose(clf.decision_function(X), expected.decision_function(X), rtol=1e-3)
    _, printed, _ = command("predict", path, table)
    assert printed.split() == [str(label) for label in clf.predict(X)]
    _, printed, _ = command("fit", table, "-a", "maxmargin", "--label", "answer")
    assert "  steps" in printed
    assert "mistakes" not in printed
