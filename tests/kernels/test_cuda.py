"""Learning with kernel values of a device; where there is none, NumPy stands in."""

import copy
import pickle
from itertools import product

import numpy as np
import pytest
from extent import everything_or
from problems import overlapping
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from standin import Library, OnDevice

import maxmargin
from maxmargin import (
    AMIRA,
    NORMA,
    PUMMA,
    Forgetron,
    PassiveAggressive,
    Perceptron,
    Projectron,
    RandomBudgetPerceptron,
)
from maxmargin.kernels import cuda
from maxmargin.kernels.cuda import CudaProducts, Placed
from maxmargin.kernels.functions import KERNELS

RBF = {"kernel": "rbf", "gamma": 0.1, "random_state": 0}
LEARNERS = {
    "amira": AMIRA(epsilon=0.9, max_iter=3, **RBF),
    "one-vs-rest": AMIRA(epsilon=0.9, max_iter=3, multiclass="ovr", **RBF),
    "poly": AMIRA(kernel="poly", gamma=0.1, coef0=1.0, degree=4, max_iter=3, random_state=0),
    "soft margin": PassiveAggressive(soft_margin=0.5, max_iter=4, **RBF),
    "mean": Perceptron(average=True, max_iter=3, **RBF),
    "shrinking": NORMA(max_iter=2, **RBF),
    "pairs": PUMMA(delta=0.1, soft_margin=1.0, max_iter=30, **RBF),
    "oldest": Forgetron(budget=40, max_iter=2, **RBF),
    "random": RandomBudgetPerceptron(budget=40, max_iter=2, **RBF),
    "projected": Projectron(threshold=0.1, budget=60, max_iter=2, **RBF),
    "budget, linear": Perceptron(budget=30, kernel="linear", max_iter=2, random_state=0),
}
every_learner = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
DIGITS = load_digits(return_X_y=True)


@pytest.fixture
def library(monkeypatch):
    """CuPy where there is a device, else NumPy in its place."""
    try:
        return cuda.cupy_library()
    except (ImportError, RuntimeError):
        found = Library()
        for module in ("maxmargin.kernels.cuda", "maxmargin.training.inputs"):
            monkeypatch.setattr(f"{module}.cupy_library", lambda: found)
        monkeypatch.setattr("maxmargin.kernels.points.library_of", _library_of)
        monkeypatch.setattr("maxmargin.kernels.functions.library_of", _library_of)
        monkeypatch.setattr("maxmargin.solvers.solutions.library_of", _library_of)
        return found


def _library_of(X):
    return Library.xp if isinstance(X, OnDevice) else np


def rows(n=400, classes=10, dtype=np.float32):
    X, y = DIGITS
    chosen = np.flatnonzero(y < classes)[:n]
    return (X[chosen] / 16.0).astype(dtype), y[chosen]


def classes_for(learner):
    return 2 if isinstance(learner, PUMMA | PassiveAggressive) else 10


def small_blocks(monkeypatch):
    for name, size in {"block": 64, "chunk": 128, "most_waiting": 48}.items():
        monkeypatch.setattr(CudaProducts, name, size)
    monkeypatch.setattr(cuda, "TILE_VALUES", 1024)
    monkeypatch.setattr(cuda, "TILE_POINTS", 32)


# ------------------------------------------------------------------------------------ same results
# Loops over kernel values in single precision are compiled anew for each rule and space.
SINGLE = everything_or(["amira", "pairs", "oldest"], list(LEARNERS))


@pytest.mark.parametrize(
    ("name", "dtype"), [*product(LEARNERS, ["float64"]), *product(SINGLE, ["float32"])]
)
def test_a_fit_is_that_of_the_host(library, monkeypatch, name, dtype):
    learner = LEARNERS[name]
    small_blocks(monkeypatch)
    X, y = rows(classes=classes_for(learner))
    host = clone(learner).set_params(kernel_dtype=dtype, cache_size=0.1).fit(X, y)
    clf = clone(host).set_params(device="cuda").fit(X, y)
    assert abs(clf.n_updates_ - host.n_updates_) <= 0.005 * host.n_updates_
    np.testing.assert_array_equal(clf.support_, host.support_)
    scale = np.abs(host.decision_function(X)).max()
    close = {"rtol": 0.0, "atol": scale * (1e-9 if dtype == "float64" else 1e-4)}
    np.testing.assert_allclose(clf.decision_function(X), host.decision_function(X), **close)
    ours, theirs = clf.certificate_, host.certificate_
    np.testing.assert_allclose(ours.margin, theirs.margin, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(ours.bound, theirs.bound, rtol=1e-3)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_stream_is_that_of_the_host(library, monkeypatch, name):
    small_blocks(monkeypatch)
    learner, dtype = LEARNERS[name], np.float32 if name in SINGLE else np.float64
    X, y = rows(classes=classes_for(learner), dtype=dtype)
    host, clf = clone(learner), clone(learner).set_params(device="cuda")
    for start in range(0, y.size, 130):
        part = slice(start, start + 130)
        for each in (host, clf):
            each.partial_fit(X[part], y[part], classes=np.unique(y))
    np.testing.assert_array_equal(clf.support_, host.support_)
    scale = np.abs(host.decision_function(X)).max()
    close = {"rtol": 0.0, "atol": 1e-4 * scale}
    np.testing.assert_allclose(clf.decision_function(X), host.decision_function(X), **close)
    np.testing.assert_allclose(clf.certificate_.bound, host.certificate_.bound, rtol=1e-3)


def test_one_row_at_a_time(library):
    X, y = rows(60)
    host, clf = clone(LEARNERS["amira"]), clone(LEARNERS["amira"]).set_params(device="cuda")
    for each in (host, clf):
        for row, label in zip(X, y, strict=True):
            each.partial_fit(row[None], [label], classes=range(10))
    np.testing.assert_allclose(clf.dual_coef_, host.dual_coef_, rtol=1e-4, atol=1e-6)


def test_weights_of_rows(library):
    X, y = rows(200, classes=2, dtype=np.float64)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    for learner in (LEARNERS["soft margin"], LEARNERS["mean"]):
        host = clone(learner).fit(X, y, sample_weight=weights)
        clf = clone(learner).set_params(device="cuda").fit(X, y, sample_weight=weights)
        np.testing.assert_array_equal(clf.support_, host.support_)
        np.testing.assert_allclose(clf.dual_coef_, host.dual_coef_, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("learner", [LEARNERS["amira"], LEARNERS["pairs"], LEARNERS["oldest"]])
def test_arrays_on_the_device_stay_there(library, learner, dtype):
    X, y = rows(200, classes=classes_for(learner), dtype=dtype)
    there, labels = library.xp.asarray(X), library.xp.asarray(y)
    clf = clone(learner).set_params(device="cuda")
    a, b = clone(clf).fit(X, y), clone(clf).fit(there, labels)
    np.testing.assert_array_equal(a.dual_coef_, b.dual_coef_)
    assert type(b.support_vectors_) is np.ndarray
    np.testing.assert_array_equal(a.support_vectors_, b.support_vectors_)
    np.testing.assert_array_equal(a.predict(X), b.predict(there))
    for each, given in ((a, X), (b, there)):
        each.partial_fit(given[:70], y[:70])
    np.testing.assert_array_equal(a.dual_coef_, b.dual_coef_)


def test_only_a_blocks_own_values_come_to_the_host(library, monkeypatch):
    if not isinstance(library, Library):
        pytest.skip("counted where NumPy stands in")
    small_blocks(monkeypatch)
    X, y = rows(400)
    clf = clone(LEARNERS["amira"]).set_params(device="cuda", cache_size=0.01, max_iter=1)
    clf.fit(X, y)
    blocks, size = 400 // 64 + 1, 400
    most = blocks * (64 * 64 + 10 * 64) + 12 * size + 10 * size + 64 * len(clf.support_) * 4
    assert library.fetched_values <= most


def test_supports_are_not_sent_again(library, monkeypatch):
    small_blocks(monkeypatch)
    X, y = rows(1500)
    clf = clone(LEARNERS["amira"]).set_params(device="cuda")
    sent, here, known = [], CudaProducts.here, []
    monkeypatch.setattr(
        CudaProducts, "here", lambda self, array: (sent.append(array.size), here(self, array))[1]
    )
    for start in range(0, 1472, 64):
        part = slice(start, start + 64)
        clf.partial_fit(X[part], y[part], classes=range(10))
        known.append(clf.support_vectors_.size)
    assert sum(sent) < X.size + 20 * y.size + 0.5 * sum(known)


# -------------------------------------------------------------------------------------- precision
def test_bfloat16_are_the_upper_half_of_float32():
    numbers = np.arange(-256.0, 256.0).astype(np.float32)
    packed = cuda._packed(numbers)
    assert packed.dtype == np.uint16
    np.testing.assert_array_equal(cuda._unpacked(packed), numbers)


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [(np.arange(256.0), "bfloat16"), (np.arange(257.0, 300.0), "tf32"), (np.r_[0.1], "float32")],
)
def test_tensor_cores_multiply_what_they_can_without_loss(library, numbers, kind):
    X = np.resize(numbers, (7, 4)).astype(np.float32)
    X[0] = 0.0  # distances are measured from here
    kernel = KERNELS["rbf"](1e-6, 3, 0.0, np.float32, X[0].astype(float))
    placed = CudaProducts()._place(kernel, X)
    assert placed.kind == kind
    values = CudaProducts().gram(kernel, kernel.points(X), kernel.points(X))
    truth = np.exp(-1e-6 * ((X[:, None] - X).astype(float) ** 2).sum(axis=2))
    np.testing.assert_allclose(values, truth, rtol=2e-6)


def test_wider_numbers_may_come_later(library, monkeypatch):
    small_blocks(monkeypatch)
    X, y = rows(600)
    X[:300] = np.round(16.0 * X[:300])
    X[300:] *= 16.01
    host = AMIRA(kernel="rbf", gamma=0.1 / 256, random_state=0)
    clf = clone(host).set_params(device="cuda")
    for each in (host, clf):
        for start in range(0, 600, 100):
            part = slice(start, start + 100)
            each.partial_fit(X[part], y[part], classes=range(10))
    np.testing.assert_array_equal(clf.support_, host.support_)
    np.testing.assert_allclose(clf.dual_coef_, host.dual_coef_, rtol=1e-3, atol=1e-5)


# ------------------------------------------------------------------------------ files, and moving
@pytest.mark.parametrize("learner", [LEARNERS["poly"], LEARNERS["oldest"], LEARNERS["pairs"]])
def test_what_was_learned_goes_on_elsewhere(library, tmp_path, learner):
    X, y = rows(200, classes=classes_for(learner))
    clf = clone(learner).set_params(device="cuda").fit(X, y)
    scores = clf.decision_function(X)
    close = {"rtol": 1e-4, "atol": 1e-4 * np.abs(scores).max()}
    maxmargin.save(clf, tmp_path / "model.mm")
    for other in (maxmargin.load(tmp_path / "model.mm"), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_allclose(other.decision_function(X), scores, **close)
        other.set_params(device="cpu")
        np.testing.assert_allclose(other.decision_function(X), scores, **close)
        other.partial_fit(X[:50], y[:50])
        other.set_params(device="cuda").partial_fit(X[:50], y[:50])
    assert copy.deepcopy(clf).predict(X).tolist() == clf.predict(X).tolist()


def test_models_are_loaded_where_there_is_no_device(library, tmp_path, monkeypatch):
    X, y = rows(100)
    clf = clone(LEARNERS["amira"]).set_params(device="cuda").fit(X, y)
    maxmargin.save(clf, tmp_path / "model.mm")

    def missing():
        raise ImportError("device='cuda' needs CuPy")

    monkeypatch.setattr(cuda, "cupy_library", missing)
    other = maxmargin.load(tmp_path / "model.mm")
    with pytest.raises(ImportError, match="CuPy"):
        other.predict(X)
    np.testing.assert_array_equal(other.set_params(device="cpu").predict(X), clf.predict(X))


# ---------------------------------------------------------------------------------- what goes wrong
@pytest.mark.parametrize(
    ("clf", "why"),
    [
        (AMIRA(device="cuda"), "kernel='linear' learns on the host"),
        (AMIRA(device="cuda", kernel="precomputed"), "'poly', 'rbf' and 'laplacian'"),
        (AMIRA(device="cuda", kernel=lambda a, b: a @ b.T), "'poly', 'rbf' and 'laplacian'"),
        (AMIRA(kernel="rbf", kernel_dtype="tf32"), "'kernel_dtype' parameter"),
        (AMIRA(kernel="rbf", device="gpu"), "'device' parameter"),
    ],
)
def test_what_no_device_can_do(clf, why):
    X, y = overlapping(n=20, d=20)
    with pytest.raises(ValueError, match=why):
        clf.fit(X, y)
    assert not hasattr(clf, "classes_")


def test_missing_libraries_are_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    cuda.cupy_library.cache_clear()
    with pytest.raises(ImportError, match=r"maxmargin\[gpu\]"):
        AMIRA(device="cuda", kernel="rbf").fit([[0.0], [1.0]], [0, 1])


def test_rows_on_the_device_are_checked(library):
    X, y = rows(60)
    there = library.xp.asarray(X)
    clf = clone(LEARNERS["amira"]).set_params(device="cuda").fit(there, y)
    with pytest.raises(ValueError, match="is on a GPU"):
        clone(clf).set_params(device="cpu").fit(there, y)
    bad = X.copy()
    bad[7, 3] = np.nan
    before = clf.dual_coef_
    for method in (clf.predict, lambda Z: clf.partial_fit(Z, y)):
        with pytest.raises(ValueError, match="row 7"):
            method(library.xp.asarray(bad))
        with pytest.raises(ValueError, match="64 features"):
            method(library.xp.asarray(X[:, :5].copy()))
        with pytest.raises(ValueError, match="2D array"):
            method(library.xp.asarray(X[0]))
    np.testing.assert_array_equal(clf.dual_coef_, before)


def test_a_full_device_leaves_the_learner_as_it_was(library, monkeypatch):
    X, y = rows(300)
    clf = clone(LEARNERS["amira"]).set_params(device="cuda")
    clf.partial_fit(X[:200], y[:200], classes=range(10))
    before, multiplied = clf.dual_coef_, type(library).multiplied

    def full(self, left: Placed, right: Placed):
        raise MemoryError("out of memory")

    monkeypatch.setattr(type(library), "multiplied", full)
    with pytest.raises(MemoryError, match="budget"):
        clf.partial_fit(X[200:], y[200:])
    monkeypatch.setattr(type(library), "multiplied", multiplied)
    np.testing.assert_array_equal(clf.dual_coef_, before)
    clf.partial_fit(X[200:], y[200:])


def test_sparse_rows_are_refused(library):
    from scipy import sparse

    X, y = rows(30)
    with pytest.raises(ValueError, match="dense rows"):
        clone(LEARNERS["amira"]).set_params(device="cuda").fit(sparse.csr_matrix(X), y)


def test_a_stream_of_blocks_on_the_device_is_learned_from_there(library):
    X, y = DIGITS
    learner = AMIRA(epsilon=0.9, device="cuda", **RBF)
    blocks = [(X[some] / 16, y[some]) for some in (slice(0, 100), slice(100, 300))]
    there = [(library.xp.asarray(rows), labels) for rows, labels in blocks]
    streamed = clone(learner).fit_stream(iter(there), classes=range(10))
    again = clone(learner).fit_stream(there)
    by_hand = clone(learner)
    for rows, labels in there:
        by_hand.partial_fit(rows, labels, classes=range(10))
    np.testing.assert_array_equal(streamed.dual_coef_, by_hand.dual_coef_)
    np.testing.assert_array_equal(again.dual_coef_, by_hand.dual_coef_)


# -------------------------------------------------------------------------------- the exact margin
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("penalty", [0.1, 0.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_exact_hyperplanes_on_a_device(library, monkeypatch, loss, penalty, intercept):
    monkeypatch.setattr("maxmargin.solvers.linear_oracle.LEAST_SAMPLE", 20)
    monkeypatch.setattr("maxmargin.solvers.linear_oracle.LEAST_PER_FEATURE", 1)
    monkeypatch.setattr("maxmargin.solvers.block_passes.AT_ONCE", 100)
    X, y = load_iris(return_X_y=True)
    X, y = (X, y) if penalty else (X[:100], y[:100])
    given = {"loss": loss, "soft_margin": penalty, "fit_intercept": intercept, "tol": 1e-6}
    weights = 1.0 + np.arange(len(y)) % 3
    usual = maxmargin.MaxMargin(**given, max_iter=300).fit(X, y, sample_weight=weights)
    for rows in (X, library.xp.asarray(X)):
        clf = maxmargin.MaxMargin(**given, max_iter=300, device="cuda")
        clf.fit(rows, y, sample_weight=weights)
        assert clf.converged_ == usual.converged_
        margins = [each.margin for each in clf.certificate_.classes or [clf.certificate_]]
        wanted = [each.margin for each in usual.certificate_.classes or [usual.certificate_]]
        np.testing.assert_allclose(margins, wanted, rtol=2e-6)
        np.testing.assert_allclose(clf.decision_function(rows), clf.decision_function(X))
    with pytest.raises(ValueError, match="dense rows"):
        clf.fit(sparse.csr_matrix(X), y)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("penalty", [0.1, 0.0])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
def test_the_exact_margin_on_a_device(library, tmp_path, loss, penalty, kernel):
    X, y = load_iris(return_X_y=True)
    given = {"kernel": kernel, "gamma": 0.5, "loss": loss, "soft_margin": penalty, "max_iter": 300}
    usual = maxmargin.MaxMargin(**given).fit(X, y)
    for rows in (X, library.xp.asarray(X)):
        clf = maxmargin.MaxMargin(**given, device="cuda").fit(rows, y)
        assert clf.converged_ == usual.converged_
        scores = usual.decision_function(X)
        np.testing.assert_allclose(
            clf.decision_function(rows), scores, atol=1e-3 * abs(scores).max()
        )
        np.testing.assert_array_equal(clf.support_vectors_, X[clf.support_])
    maxmargin.save(clf, tmp_path / "model")
    again = maxmargin.load(tmp_path / "model")
    assert again.certificate_ == clf.certificate_
    assert again.set_params(device="cpu").score(X, y) == clf.score(X, y)


@pytest.mark.parametrize("given", [{"kernel": "auto"}, {"kernel": "auto", "n_landmarks": 40}, {}])
def test_choices_on_a_device(library, given):
    """Scales, widths and lambda are chosen on the host, by a sample of the rows."""
    X, y = load_iris(return_X_y=True)
    usual = maxmargin.MaxMargin(**given, calibration="loo").fit(X, y)
    for rows in (X, library.xp.asarray(X)):
        clf = maxmargin.MaxMargin(**given, calibration="loo", device="cuda").fit(rows, y)
        assert clf.soft_margin_ == usual.soft_margin_
        assert clf.converged_
        np.testing.assert_allclose(clf.decision_function(X), usual.decision_function(X), atol=0.02)
        np.testing.assert_allclose(clf.predict_proba(X), usual.predict_proba(X), atol=0.02)
        if given:
            np.testing.assert_allclose(clf.column_scales_, usual.column_scales_)
