"""Graphs of ONNX say what learners say: run by onnxruntime, on every learner."""

import numpy as np
import pytest
from persistence.states import ESTIMATORS, fitted, made, states, three, two
from persistence.states import X as ROWS
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    AMIRA,
    NOCA,
    AutoMargin,
    FixedShare,
    Forgetron,
    MaxMargin,
    PassiveAggressive,
    Perceptron,
    streams,
    to_onnx,
)

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

# Asked is 1e-5; numbers in float32 have this many digits.
CLOSE = {"float64": 1e-12, "float32": 1e-6}
both_types = pytest.mark.parametrize("dtype", CLOSE)
random = np.random.default_rng(11)
NEW = random.normal(size=(50, 3))
KNOWN = [(name, make) for name, make, _ in states() if not name.endswith("new")]
every_state = pytest.mark.parametrize(("name", "make"), KNOWN, ids=[name for name, _ in KNOWN])


def run(model, inputs):
    """What a graph says, by the names of its outputs."""
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def assert_close(found, ours, dtype, digits=None):
    """Relative to the largest, as exact as the less exact of two types."""
    assert found.shape == ours.shape
    assert found.dtype == dtype
    tolerance = CLOSE[digits or dtype] * np.abs(ours).max()
    np.testing.assert_allclose(found, ours, rtol=0.0, atol=tolerance)


def check(clf, rows, dtype="float64", inputs=None, digits=None):
    """The graph of a learner says of rows what the learner says."""
    rows = rows.astype(dtype) if isinstance(rows, np.ndarray) else rows
    found = run(to_onnx(clf, dtype=dtype), {"X": rows} if inputs is None else inputs)
    scores = clf.decision_function(rows)
    assert_close(found["scores"], scores, dtype, digits)
    assert ("probabilities" in found) is hasattr(clf, "predict_proba")
    if "probabilities" in found:
        assert_close(found["probabilities"], clf.predict_proba(rows), dtype)
    assert found["label"].tolist() == clf.predict(rows).tolist()
    return found


# ------------------------------------------------------------------------------- every learner
@both_types
@every_state
def test_every_learner_in_every_state(name, make, dtype):
    rows = NEW @ ROWS.T if "precomputed" in name else NEW
    # Where ours computes kernel values in float32, it is the less exact one.
    check(make(), rows, dtype, digits="float32" if "float32" in name else None)


def test_no_learner_is_left_out():
    assert {name.split()[0] for name, _ in KNOWN} == {each.__name__ for each in ESTIMATORS}


@pytest.mark.parametrize("rows", [1, 7, 0])
def test_any_number_of_rows(rows):
    clf = fitted(made(PassiveAggressive, kernel="rbf", gamma=0.5), labels=three)
    found = run(to_onnx(clf), {"X": NEW[:rows]})
    assert found["scores"].shape == (rows, 3)
    assert found["label"].shape == (rows,)


def test_gamma_is_what_it_came_to():
    """Also far from the origin, where squares of rows have few digits to spare."""
    for gamma in ("scale", "auto"):
        clf = made(PassiveAggressive, kernel="rbf", gamma=gamma).fit(ROWS + 1e6, two)
        found = run(to_onnx(clf), {"X": NEW + 1e6})
        np.testing.assert_allclose(
            found["scores"], clf.decision_function(NEW + 1e6), rtol=0.0, atol=1e-9
        )


def test_laplacian_kernel():
    clf = fitted(made(PassiveAggressive, kernel="laplacian", gamma=0.5), labels=three)
    check(clf, NEW)


# --------------------------------------------------------------------------------------- labels
@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (two, np.object_),
        (two.astype(object), np.object_),
        (two == "yes", np.int64),
        (np.where(two == "yes", 7, -3).astype(np.int8), np.int64),
        (np.where(two == "yes", 1.0, -1.0), np.int64),
    ],
    ids=["strings", "objects", "booleans", "integers", "floats"],
)
def test_labels(labels, kind):
    clf = Perceptron(max_iter=2, random_state=0).fit(ROWS, labels)
    assert check(clf, NEW)["label"].dtype == kind


@pytest.mark.parametrize("classes", [["b"], ["b", "a"], ["b", "a", "c"]])
def test_classes_that_came_late(classes):
    clf = Perceptron()
    for label in classes:
        rows = ROWS[:5] + ord(label)
        clf.partial_fit(rows, [label] * 5, classes=[label], grow=True)
    check(clf, NEW)


@both_types
@pytest.mark.parametrize(
    "learner", [Perceptron(max_iter=1, random_state=0), MaxMargin(soft_margin=1.0)]
)
def test_several_labels(learner, dtype):
    labels = (np.column_stack([ROWS, -ROWS[:, :1]]) > 0.2).astype(int)
    label = check(learner.fit(ROWS, labels), NEW, dtype)["label"]
    assert label.dtype == np.int64
    assert label.shape == (50, 4)


def test_columns_that_dicts_brought():
    clf = Perceptron()
    for row, label in zip(ROWS, two, strict=True):
        row = dict(zip("abc", row.tolist(), strict=True))
        clf.learn_one(row, label, classes=["no", "yes"])
    check(clf, NEW)


# -------------------------------------------------------------------------------- probabilities
@both_types
@pytest.mark.parametrize("labels", [two, three], ids=["two", "three"])
def test_probabilities(labels, dtype):
    clf = MaxMargin(calibration="loo")
    assert "probabilities" in check(clf.fit(ROWS, labels), np.vstack([NEW, 1e3 * NEW]), dtype)


def test_probabilities_of_several_labels():
    labels = (np.column_stack([ROWS, -ROWS[:, :1]]) > 0.2).astype(int)
    check(MaxMargin(calibration="loo").fit(ROWS, labels), NEW)


def test_probabilities_that_are_not_known_yet():
    clf = MaxMargin().fit(ROWS, two).set_params(calibration="loo")
    with pytest.raises(NotFittedError, match="no probabilities yet"):
        to_onnx(clf)


@pytest.mark.parametrize("labels", [two, three], ids=["two", "three"])
def test_densities_far_from_all_components(labels):
    """Where all densities are 0 nothing is known, and one that is not counts alone."""
    clf = NOCA(random_state=0).fit(ROWS, labels)
    check(clf, np.vstack([NEW, 1e3 * NEW, 1e160 * NEW]))
    clf = NOCA().partial_fit(ROWS[:4], labels[:4], classes=[*np.unique(labels), labels[0] * 2])
    check(clf, NEW)


# ----------------------------------------------------------------------------------------- votes
def test_votes_of_experts_of_all_kinds():
    learners = [
        Perceptron(),
        PassiveAggressive(C=0.1),
        PassiveAggressive(C=10.0),
        PassiveAggressive(kernel="rbf", gamma=0.5),
        Forgetron(budget=5, gamma=0.5),
    ]
    for labels in (two, three):
        check(FixedShare(learners=learners, max_iter=1, random_state=0).fit(ROWS, labels), NEW)


# --------------------------------------------------------------------------------------- recipes
@pytest.fixture(scope="module")
def table():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    numbers = np.random.default_rng(3).normal(size=(80, 2)) * [10.0, 0.1] + [40.0, 3.0]
    return pandas.DataFrame(
        {
            "age": np.where(np.arange(80) % 7 == 0, np.nan, numbers[:, 0]),
            "rate": numbers[:, 1],
            "flat": np.full(80, 5.0),
            "member": np.arange(80) % 3 == 0,
            "city": np.array(["Rome", "Ulm", "Oslo", "NA"])[np.arange(80) % 4],
            "id": np.arange(80),
            "bought": np.where(numbers[:, 0] + (np.arange(80) % 4) > 41.0, "yes", "no"),
        }
    )


def learned(clf, table, **options):
    recipe = streams.Recipe(**{"drop": ["id"], **options})
    return clone(clf).fit_stream(streams.open(table, label="bought", recipe=recipe))


def columns_of(table, dtype="float64"):
    """The inputs of a graph: strings where there are such, else numbers."""
    return {
        name: table[[name]].to_numpy().astype(object if name == "city" else dtype)
        for name in ("age", "rate", "flat", "member", "city")
    }


@both_types
@pytest.mark.parametrize(
    "learner",
    [
        PassiveAggressive(C=0.1),
        AutoMargin(),
        PassiveAggressive(kernel="rbf", gamma=0.5),
        NOCA(),
    ],
    ids=["linear", "mixture", "kernel", "densities"],
)
def test_recipes(learner, table, dtype):
    clf = learned(learner, table)
    rows = table.drop(columns="bought").iloc[:40].copy()
    rows.loc[:, "city"] = ["Rome", "", "Paris", "Ulm"] * 10
    rows.loc[::5, "rate"] = np.nan
    rows[["age", "rate", "flat"]] = rows[["age", "rate", "flat"]].astype(dtype)
    check(clf, rows, dtype, columns_of(rows, dtype))


def test_recipes_without_scales_or_fills(table):
    rows = table.drop(columns="bought").iloc[1:7]
    clf = learned(Perceptron(), table.iloc[[k for k in range(80) if k % 7]], missing="error")
    check(clf, rows, inputs=columns_of(rows))
    gap = table.drop(columns="bought").iloc[:1]
    assert np.isnan(run(to_onnx(clf), columns_of(gap))["scores"]).all()
    clf = learned(Perceptron(), table, scale=False)
    check(clf, gap, inputs=columns_of(gap))


def test_recipes_for_arrays():
    rows = np.column_stack([10.0 * ROWS + 3.0, np.ones(len(ROWS))])
    rows[::6, 1] = np.nan
    clf = Perceptron().fit_stream(streams.open(rows, two, recipe=streams.Recipe(drop=["x0"])))
    new = np.column_stack([10.0 * NEW + 3.0, np.ones(len(NEW))])
    new[::4, 1:3] = np.nan
    check(clf, new)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": {"city": "text"}}, "column 'city' is a text"),
        ({"kinds": {"city": "hashed"}}, "column 'city' is a hashed category"),
        ({"kinds": {"day": "date"}}, "column 'day' is a date"),
        ({"interactions": [("age", "city")]}, "'age' and 'city' have an interaction"),
    ],
)
def test_columns_that_have_no_such_form_are_named(options, message, table):
    table = table.assign(day="2024-05-01") if "day" in message else table
    clf = learned(Perceptron(), table, hash_bits=4, **options)
    with pytest.raises(ValueError, match=message):
        to_onnx(clf)


@pytest.mark.unseeded  # skl2onnx imports sklearn.ensemble, which draws numbers when it is imported
def test_steps_of_a_pipeline_come_before():
    skl2onnx = pytest.importorskip("skl2onnx")
    pipe = make_pipeline(StandardScaler(), made(AMIRA)).fit(ROWS, three)
    before = skl2onnx.to_onnx(pipe[:-1], ROWS[:1], target_opset=15)
    model = onnx.compose.merge_models(before, to_onnx(pipe[-1]), io_map=[("variable", "X")])
    found = run(model, {"X": NEW})
    assert_close(found["scores"], pipe.decision_function(NEW), "float64")
    assert found["label"].tolist() == pipe.predict(NEW).tolist()


def test_columns_with_the_names_of_outputs_are_refused(table):
    clf = learned(Perceptron(), table.rename(columns={"rate": "scores"}))
    with pytest.raises(ValueError, match="'scores' has the name of a column"):
        to_onnx(clf)


# -------------------------------------------------------------------------------------- refusals
def test_what_is_no_fitted_learner_is_refused():
    with pytest.raises(TypeError, match="StandardScaler is not a learner of maxmargin"):
        to_onnx(StandardScaler())
    with pytest.raises(NotFittedError):
        to_onnx(Perceptron())
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float64'"):
        to_onnx(Perceptron(random_state=0).fit(ROWS, two), dtype="float16")
    clf = AMIRA(kernel=lambda some, others: some @ others.T, shuffle=False).fit(ROWS, two)
    with pytest.raises(ValueError, match="function of Python has no form in ONNX"):
        to_onnx(clf)


def test_graphs_that_no_file_could_hold_are_refused_before_they_are_made():
    rows = sparse.csr_matrix((np.ones(4), ([0, 1, 2, 3], [0, 1, 2, 3])), shape=(4, 2**27))
    clf = PassiveAggressive(kernel="poly", gamma=1.0, shuffle=False).fit(rows, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="GiB, and ONNX files hold 2 at most"):
        to_onnx(clf)


def test_versions_are_old_enough():
    model = to_onnx(Perceptron(random_state=0).fit(ROWS, two))
    assert model.ir_version == 8
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 15)]
