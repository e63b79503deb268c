"""The experiments on NOCApm, on moving targets and on directional margins, in their tiny form."""

import bz2
from dataclasses import replace

import numpy as np
import pytest

from maxmargin_papers.data import data_files, vehicle
from maxmargin_papers.data.vehicle import load_vehicle
from maxmargin_papers.experiments import (
    directional_margin,
    noca_figure2,
    noca_table3,
    other_learners,
)
from maxmargin_papers.reproduction import find
from maxmargin_papers.reproduction.experiment import Claim, NoVerdict, Printed, Results
from maxmargin_papers.reproduction.figures import as_svgs
from maxmargin_papers.reproduction.runner import run_all
from maxmargin_papers.reproduction.verdicts import (
    FAILED,
    NOT_COMPARED,
    REPRODUCED,
    UNDECIDED,
    judge,
)

NAMES = (
    "noca-table1",
    "noca-table2",
    "noca-table3",
    "noca-figure2",
    "tracking-figure1",
    "directional-margin",
)


@pytest.fixture(autouse=True)
def _no_folder_and_no_net(monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("there is no net")

    monkeypatch.delenv("MAXMARGIN_DATA", raising=False)
    monkeypatch.setattr(data_files, "fetch_openml", fail)


@pytest.fixture(scope="module")
def outcomes(measured):
    found = run_all([find(name) for name in NAMES], "tiny", measured, None, jobs=1)
    return {one.experiment.name: one for one in found}


@pytest.mark.parametrize("name", NAMES)
def test_every_number_is_measured_and_none_compared(outcomes, name):
    outcome = outcomes[name]
    assert not outcome.missing
    assert len(outcome.records) == len(outcome.experiment.cells("tiny"))
    assert len(outcome.lines) == len(outcome.experiment.compared) > 0
    for line in outcome.lines:
        assert line.runs > 0, line
        assert line.ours, line
        assert line.verdict == NOT_COMPARED


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_follow_from_the_results(outcomes, name):
    """At full scale the same lines have a verdict, unless the data are a stand-in."""
    experiment, results = outcomes[name].experiment, outcomes[name].results
    as_if_real = Results([(cell, {**n, "stand_in": ""}) for cell, n in results.records])
    lines = judge(experiment, as_if_real, "full")
    for line, one in zip(lines, experiment.compared, strict=True):
        has_verdict = isinstance(one, Claim) or not isinstance(one.tolerance, NoVerdict)
        assert (line.verdict != NOT_COMPARED) == has_verdict


@pytest.mark.parametrize("name", ["noca-table3", "noca-figure2"])
def test_a_stand_in_gets_no_verdict(outcomes, name):
    lines = judge(outcomes[name].experiment, outcomes[name].results, "full")
    assert {line.verdict for line in lines} == {NOT_COMPARED}
    assert {line.why for line in lines} == {noca_table3.STAND_IN}


@pytest.mark.parametrize("name", NAMES)
def test_quick_cells_are_some_of_the_full_ones(name):
    experiment = find(name)
    full = [dict(cell) for cell in experiment.cells("full")]
    quick = [dict(cell) for cell in experiment.cells("quick")]
    assert all(cell in full for cell in quick)
    assert 0 < len(quick) < len(full)


def test_the_figures_are_drawn(outcomes):
    for name in ("noca-figure2", "tracking-figure1", "directional-margin"):
        panels = outcomes[name].experiment.panels(outcomes[name].results)
        assert all("<svg" in svg for svg in as_svgs(panels))


# -------------------------------------------------------------------------------- wrong numbers
def orders(numbers, runs=5):
    """Results of a few orders that differ a little: by learner, its accuracy, seconds and size."""
    shifts = np.linspace(-0.1, 0.1, runs)
    return Results(
        [
            (
                {"learner": name, "order": order},
                {"accuracy": accuracy + shifts[order], "seconds": seconds, "size": size},
            )
            for name, (accuracy, seconds, size) in numbers.items()
            for order in range(runs)
        ]
    )


def test_a_wrong_accuracy_is_not_reproduced():
    numbers = {
        "NOCApm": (98.90, 1.0, 32),
        "Forgetron": (97.6, 1.0, 32),
        "Projectron++": (98.70, 1.0, 32),
    }
    lines = judge(find("noca-table1"), orders(numbers), "full")
    verdicts = {line.row: line.verdict for line in lines if line.column == "accuracy, %"}
    assert verdicts == {"NOCApm": REPRODUCED, "Forgetron": FAILED, "Projectron++": REPRODUCED}
    lines = judge(find("noca-table1"), orders(numbers, runs=1), "full")
    assert {line.verdict for line in lines if line.column == "accuracy, %"} == {UNDECIDED}


def test_the_method_as_printed_and_sizes_are_compared():
    """NOCApm's own sizes follow our limit."""
    lines = [one for one in find("noca-table2").compared if isinstance(one, Printed)]
    for column in ("accuracy, %", "size"):
        without = {
            one.row
            for one in lines
            if one.column == column and isinstance(one.tolerance, NoVerdict)
        }
        assert without == ({"NOCApm", *other_learners.READINGS} if column == "size" else set())
    assert {one.deviation for one in lines if one.column == "size"} == {"4.30", "0", "5.89"}


def test_moving_targets_are_fitted():
    """The paper prints neither data nor parameters."""
    assert {one.kind for one in find("tracking-figure1").compared} == {"fitted"}


def test_a_rival_that_is_better_faster_and_smaller_contradicts_the_claims():
    numbers = {
        "NOCApm": (80.0, 2.0, 58),
        "Forgetron": (80.5, 3.0, 100),
        "Projectron++": (79.0, 1.0, 57),
    }
    assert [claim.holds(orders(numbers))[0] for claim in other_learners.CLAIMS] == [
        False,
        False,
        False,
    ]
    assert [claim.holds(orders(numbers, 1))[0] for claim in other_learners.CLAIMS] == [
        None,
        None,
        None,
    ]
    numbers["NOCApm"] = (81.0, 0.5, 20)
    assert [claim.holds(orders(numbers))[0] for claim in other_learners.CLAIMS] == [
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("lead", "runs", "answer"), [(2.0, 5, True), (0.0, 5, None), (-2.0, 5, False), (2.0, 1, None)]
)
def test_the_best_at_every_look_beyond_chance(lead, runs, answer):
    random = np.random.default_rng(0)
    results = Results(
        [
            (
                {"learner": name, "order": order},
                {
                    "seen": [10, 20, 30],
                    "accuracies": [80.0 + lead * (name == "NOCApm") + random.normal(0.0, 0.1)] * 3,
                },
            )
            for name in other_learners.LEARNERS
            for order in range(runs)
        ]
    )
    assert noca_figure2.always_best(results)[0] is answer


def test_order_of_mistakes():
    counts = {"Perceptron": 90, "NORMA₀": 95, "NORMA": 20, "ALMA₀": 60, "ALMA": 70}
    results = Results(
        [
            (
                {"stream": "drifting", "seed": seed},
                {f"{name} in all": count + seed for name, count in counts.items()},
            )
            for seed in range(3)
        ]
    )
    lines = judge(find("tracking-figure1"), results, "full")
    verdicts = [line.verdict for line in lines if line.row.startswith("drifting")]
    assert verdicts == [REPRODUCED, FAILED, FAILED, REPRODUCED, FAILED]
    assert {line.verdict for line in lines if line.row.startswith("switching")} == {NOT_COMPARED}


def test_the_exact_directional_margin():
    """Two rows whose reflected forms are (1, 1) and (1, -1): the hull is nearest at (1, 0)."""
    X, y = np.array([[1.0], [-1.0]]), np.array([1, -1])
    assert directional_margin.exact_margin(X, y, 1.0) == pytest.approx(1.0)
    X = np.array([[3.0], [1.0]])
    # (3, 1) and (-1, -1): the line through them passes the origin at 1 / sqrt(5).
    assert directional_margin.exact_margin(X, y, 1.0) == pytest.approx(2.0 / np.sqrt(20.0))


def test_accuracy_counts_predictions_before_learning():
    X = np.tile([[0.0, 0.0], [3.0, 0.0]], (100, 1))
    y = np.tile([0, 1], 100)
    clf = other_learners.Setting(epsilon=1.0, components=4, sigma=1.0, budget=5).learner(
        "Forgetron"
    )
    numbers = other_learners.one_pass(clf, X, y)
    assert numbers["seen"][-1] == 200
    assert numbers["accuracy"] == 100.0 * (1.0 - clf.n_mistakes_ / 200)
    assert numbers["accuracies"][-1] == numbers["accuracy"]


# ---------------------------------------------------------------------------------- SensIT Vehicle
TRAIN = b"1 1:1 51:3\n2 1:5 50:2\n3 51:-1 100:4\n"
TEST = b"3.0 1:9 100:2\n"


@pytest.fixture
def few_rows(monkeypatch):
    """Let the sources expect three rows and one."""
    parts = {"train": slice(0, 3), "test": slice(3, 4)}
    small = {
        part: replace(
            old,
            counts=rows.stop - rows.start,
            openml=replace(old.openml, convert=vehicle.convert(rows)),
        )
        for (part, old), rows in zip(vehicle.VEHICLE.items(), parts.values(), strict=True)
    }
    monkeypatch.setattr(vehicle, "VEHICLE", small)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "vehicle").mkdir()
    (tmp_path / "vehicle" / "combined.bz2").write_bytes(bz2.compress(TRAIN))
    (tmp_path / "vehicle" / "combined.t").write_bytes(TEST)
    return tmp_path


@pytest.mark.usefixtures("few_rows")
def test_vehicle_from_files(files):
    X, y = load_vehicle(data_home=files)
    assert X.shape == (3, 100)
    assert (X[0, 0], X[0, 50], X[2, 99]) == (1.0, 3.0, 4.0)
    assert y.tolist() == [1, 2, 3]
    assert y.dtype.kind == "i"
    np.testing.assert_array_equal(load_vehicle(sensors="acoustic", data_home=files)[0], X[:, :50])
    np.testing.assert_array_equal(load_vehicle(sensors="seismic", data_home=files)[0], X[:, 50:])
    assert load_vehicle("test", data_home=files)[1].tolist() == [3]


@pytest.mark.usefixtures("few_rows")
def test_vehicle_is_scaled_by_the_training_part(files):
    X, _ = load_vehicle(scale=True, data_home=files)
    assert X[:, 0].tolist() == [0.2, 1.0, 0.0]
    assert X[:, 50].tolist() == [1.0, 0.25, 0.0]
    assert (X[:, 1] == 0.0).all()
    X, _ = load_vehicle("test", scale=True, data_home=files)
    assert X[0, [0, 99]].tolist() == [1.8, 0.5]


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize(
    "content",
    [
        b"not compressed",
        bz2.compress(TRAIN)[:-5],
        bz2.compress(TRAIN[: TRAIN.index(b"3 51")]),
        bz2.compress(TRAIN.replace(b"3 51", b"4 51")),
        bz2.compress(TRAIN.replace(b"100:4", b"101:4")),
    ],
)
def test_damaged_vehicle_names_the_file(files, content):
    path = files / "vehicle" / "combined.bz2"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged") as caught:
        load_vehicle(data_home=files)
    assert str(path) in str(caught.value)


def test_missing_vehicle_is_replaced_by_a_named_stand_in(monkeypatch, tmp_path):
    monkeypatch.setattr(noca_table3, "SIZES", {"train": 60, "test": 20})
    noca_table3.vehicle.cache_clear()
    (X, y), (X_test, _), origin = noca_table3.vehicle(False, str(tmp_path))
    noca_table3.vehicle.cache_clear()
    assert origin == {"stand_in": noca_table3.STAND_IN}
    assert (X.shape, X_test.shape) == ((60, 50), (20, 50))
    assert set(y) == {1, 2, 3}


@pytest.mark.usefixtures("few_rows")
def test_the_real_vehicle_is_no_stand_in(files):
    noca_table3.vehicle.cache_clear()
    (X, _), (X_test, _), origin = noca_table3.vehicle(False, str(files))
    noca_table3.vehicle.cache_clear()
    assert origin == {}
    assert (X.shape, X_test.shape) == ((3, 50), (1, 50))
