"""Learners with kernels: what the references do, however rows are cut into blocks."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest
import reference
import reference_kernel
import reference_pnorm
from extent import everything_or
from models.kinds import arrays_of
from problems import FaultyKernel, label, overlapping, separable, three_classes
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from maxmargin import (
    ALMA,
    AMIRA,
    MICRA,
    NORMA,
    PUMMA,
    ROMMA,
    BisectionPerceptron,
    DirectionalPerceptron,
    PassiveAggressive,
    Pegasos,
    Perceptron,
    Relaxation,
    TrackingALMA,
)
from maxmargin.kernels import products
from maxmargin.models import kernel_fit
from maxmargin.models import kernel_model as kernel_models
from maxmargin.training.protocol import state_of

ROWS, PASSES, OFFSET, RIDGE = 60, 3, 0.7, 0.4
X, y = overlapping(n=ROWS, d=4, distance=1.5)
PARAMETERS = {
    "rbf": {"kernel": "rbf", "gamma": 0.5},
    "poly": {"kernel": "poly", "gamma": 0.3, "degree": 3, "coef0": 1.0},
}
GRAMS = {
    "rbf": reference_kernel.rbf(X, X, 0.5),
    "poly": reference_kernel.poly(X, X, 0.3, 3, 1.0),
}


def product(some, others):
    """The linear kernel, as a function."""
    return some @ others.T


class Case(NamedTuple):
    """A learner, and the reference that it follows without and with an intercept."""

    learner: object
    plain: object
    with_intercept: object = None  # of a learner by pairs; the others have one more column

    def settings(self, kernel, intercept, soft_margin):
        """The learner for these settings."""
        clf = clone(self.learner).set_params(
            **PARAMETERS[kernel], fit_intercept=intercept, soft_margin=soft_margin, shuffle=False
        )
        if "intercept_scaling" in clf.get_params():
            clf.set_params(intercept_scaling=OFFSET)
        return clf

    def expected(self, K, ridge, signs, passes, intercept):
        """What the reference learns from rows with these inner products."""
        rows = reference_kernel.rows_of(K)
        in_pairs = intercept and self.with_intercept is not None
        if intercept and not in_pairs:
            rows = np.column_stack([rows, np.full(len(K), OFFSET)])
        rows = reference_pnorm.soft(rows, ridge)
        trace = (self.with_intercept if in_pairs else self.plain)(
            np.tile(rows, (passes, 1)), np.tile(signs, passes)
        )
        w = trace.w
        if isinstance(self.learner, MICRA):  # only the direction matters: it keeps length 1
            w = w / np.linalg.norm(w)
        return Expected(trace, rows, w, trace.b if in_pairs else 0.0, len(K))


class Expected(NamedTuple):
    """What a reference has learned: weights of the rows' columns, and a bias.

    The first columns, as many as rows, are those of the kernel; the last ones are of slack.
    """

    trace: object
    rows: object
    w: object
    bias: float
    size: int

    def outputs(self):
        """With the coordinates of slack."""
        return self.rows @ self.w + self.bias

    def scores(self):
        """Without."""
        return self.rows[:, : -self.size] @ self.w[: -self.size] + self.bias

    def length(self):
        """That of the weights but for the intercept."""
        return np.linalg.norm(self.w[[*range(self.size), *range(-self.size, 0)]])


def following(function, **settings):
    return lambda rows, signs: function(rows, signs, **settings)


CASES = [
    Case(Perceptron(margin=0.2, rate=0.5), following(reference.perceptron, margin=0.2, rate=0.5)),
    Case(Perceptron(average=True), following(reference.averaged_perceptron)),
    Case(Relaxation(rate=1.5), following(reference.relaxation, rate=1.5)),
    Case(PassiveAggressive(C=0.5), following(reference.passive_aggressive, C=0.5)),
    Case(
        PassiveAggressive(C=0.5, loss="squared_hinge"),
        following(reference.passive_aggressive, C=0.5, loss="squared_hinge"),
    ),
    Case(AMIRA(epsilon=0.3), following(reference.amira, epsilon=0.3)),
    Case(
        AMIRA(epsilon=0.3, intercept="pair"),
        following(reference.amira, epsilon=0.3),
        following(reference_pnorm.pair_amira, epsilon=0.3),
    ),
    Case(ROMMA(delta=0.2), following(reference.romma, delta=0.2)),
    Case(
        PUMMA(delta=0.2),
        following(reference.romma, delta=0.2),
        following(reference_pnorm.pumma, delta=0.2),
    ),
    Case(ALMA(alpha=0.3), following(reference.alma, alpha=0.3)),
    Case(MICRA(beta=0.5, eta=0.7), following(reference.micra, beta=0.5, eta=0.7)),
    Case(
        DirectionalPerceptron(beta=0.1),
        following(reference.directional_perceptron, beta=0.1),
    ),
    Case(
        DirectionalPerceptron(beta=0.1, length="fixed", rate=0.05),
        following(reference.directional_perceptron, beta=0.1, length="fixed", rate=0.05),
    ),
    Case(Pegasos(lambda_=0.1), following(reference.pegasos, lambda_=0.1)),
    Case(
        Pegasos(lambda_=0.1, project=True),
        following(reference.pegasos, lambda_=0.1, project=True),
    ),
    Case(
        NORMA(rate=0.3, decay=0.1),
        following(reference.norma, rate=0.3, decay=0.1, margin=1.0),
    ),
    Case(
        TrackingALMA(rate=0.3, radius=1.5, margin=0.5),
        following(reference.tracking_alma, rate=0.3, radius=1.5, margin=0.5),
    ),
]

# Loops over kernel values are compiled for each rule, which knows nothing of kernels: these steps,
# scalings and projections stand for all.
ALIKE = (DirectionalPerceptron, MICRA, Relaxation, TrackingALMA)
SOME = everything_or([each for each in CASES if not isinstance(each.learner, ALIKE)], CASES)
every_case = pytest.mark.parametrize("case", SOME, ids=lambda case: label(case.learner))
every_kernel = pytest.mark.parametrize("kernel", PARAMETERS)


def cut_into(monkeypatch, block, most_waiting=512, chunk=4096):
    """Let the work be done in pieces of these sizes."""
    for module in (kernel_models, products):
        monkeypatch.setattr(module, "CHUNK", chunk)
    sizes = {"block": block, "chunk": chunk, "most_waiting": most_waiting}
    for name, size in sizes.items():
        monkeypatch.setattr(products.Products, name, size)


def feed(clf, rows, labels, size):
    """Present the rows in chunks of this size."""
    for start in range(0, rows.shape[0], size):
        chunk = slice(start, start + size)
        clf.partial_fit(rows[chunk], labels[chunk], classes=np.unique(labels))
    return clf


def coefficients(clf, rows=ROWS):
    """Those of all training rows."""
    full = np.zeros((clf.dual_coef_.shape[0], rows))
    full[:, clf.support_] = clf.dual_coef_
    return full


def assert_close(mine, expected, rtol):
    np.testing.assert_allclose(mine, expected, rtol=0, atol=rtol * np.abs(expected).max())


def assert_same_model(first, second, rtol=1e-10):
    np.testing.assert_array_equal(first.support_, second.support_)
    assert_close(first.dual_coef_, second.dual_coef_, rtol)
    assert_close(first.intercept_, second.intercept_, rtol)
    assert first.n_updates_ == second.n_updates_
    assert first.n_mistakes_ == second.n_mistakes_


def memory(clf):
    """All that can be seen of what a learner knows."""
    return (
        clf.support_.tolist(),
        clf.dual_coef_.tolist(),
        clf.intercept_.tolist(),
        clf.classes_.tolist(),
        clf.decision_function(X).tolist(),
        (clf.n_features_in_, clf.n_iter_, clf.converged_, clf.n_updates_, clf.n_mistakes_),
        str(clf.certificate_),
    )


# ---------------------------------------------------------------------------------- the references
@every_case
@every_kernel
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("soft_margin", [0.0, RIDGE])
def test_follows_the_reference(case, kernel, intercept, soft_margin):
    plain = case.settings(kernel, intercept, soft_margin)
    for passes in (1, PASSES):
        wanted = case.expected(GRAMS[kernel], soft_margin, y.astype(float), passes, intercept)
        clf = clone(plain).set_params(max_iter=passes).fit(X, y)
        assert_close(coefficients(clf)[0] @ wanted.rows, wanted.w, 1e-9)
        assert_close(clf.decision_function(X), wanted.scores(), 1e-9)
        assert clf.n_updates_ == wanted.trace.updated.sum() > 0
        assert clf.n_mistakes_ == wanted.trace.mistakes.sum() > 0
        margin = (y * wanted.outputs()).min() / wanted.length()
        np.testing.assert_allclose(clf.certificate_.margin, margin, rtol=1e-9)
        if passes == 1:
            assert_same_model(feed(clone(plain), X, y, 7), clf)


@pytest.mark.parametrize(
    "learner", [PassiveAggressive(C=0.5), Perceptron(average=True), PUMMA(delta=0.2)], ids=label
)
def test_one_against_the_rest_shares_the_supports(learner):
    rows, labels = three_classes(n=40, d=4, spread=0.8)
    case = next(each for each in CASES if label(each.learner) == label(learner))
    clf = case.settings("rbf", True, RIDGE).set_params(max_iter=2).fit(rows, labels)
    K, updates, scores = reference_kernel.rbf(rows, rows, 0.5), 0, []
    for c in range(3):
        wanted = case.expected(K, RIDGE, np.where(labels == c, 1.0, -1.0), 2, True)
        assert_close(coefficients(clf, 40)[c] @ wanted.rows, wanted.w, 1e-9)
        scores.append(wanted.scores())
        updates += wanted.trace.updated.sum()
    assert clf.n_updates_ == updates
    assert clf.dual_coef_.shape == (3, clf.support_.size)
    assert_close(clf.decision_function(rows), np.transpose(scores), 1e-9)
    np.testing.assert_array_equal(clf.predict(rows), np.argmax(scores, axis=0))


# ------------------------------------------------------------------------------------- snapshots
def test_the_coefficients_at_the_last_two_snapshots_are_kept(monkeypatch):
    """Those since the last but one are at least half of all updates."""
    take, taken = kernel_fit.KernelFit.take_snapshot, []

    def recorded(self):
        take(self)
        taken.append(self.coefs.copy())

    monkeypatch.setattr(kernel_fit.KernelFit, "take_snapshot", recorded)
    clf = AMIRA(kernel="rbf", max_iter=PASSES, random_state=0).fit(X, y)
    before, last = (each[:, clf.support_] for each in taken[-2:])
    assert not np.array_equal(before, last)
    np.testing.assert_array_equal(state_of(clf).model.supports.marks, [before, last])


def test_the_coefficients_at_the_last_two_snapshots_of_a_stream_are_kept():
    """They are taken whenever the number of updates has doubled."""
    clf, taken, due = Perceptron(kernel="rbf", gamma=0.3), [np.zeros((1, 0))] * 2, 1
    for t in range(ROWS):
        clf.partial_fit(X[t : t + 1], y[t : t + 1], classes=[-1, 1])
        known = state_of(clf).model.supports
        if clf.n_updates_ >= due:
            taken.append(known.coefs)
            due = 2 * clf.n_updates_
        for mark, expected in zip(known.marks, taken[-2:], strict=True):
            np.testing.assert_array_equal(mark[:, : expected.size], expected)
            assert not mark[:, expected.size :].any()
    assert len(taken) > 5


# ------------------------------------------------------------------------------------------ blocks
@every_case
@pytest.mark.parametrize(
    ("block", "waiting"), everything_or([(1, 1), (7, 9)], [(1, 1), (7, 9), (32, 1000)])
)
def test_blocks_are_row_by_row(monkeypatch, case, block, waiting):
    """Also that the Gram matrix of all rows is the same as many small ones."""
    plain = case.settings("rbf", True, RIDGE).set_params(max_iter=PASSES)
    expected = clone(plain).fit(X, y)
    cut_into(monkeypatch, block, waiting, chunk=17)
    for cache_size in (1e-6, 4e-6 * ROWS**2):  # no line of the kernel matrix is kept, or some are
        clf = clone(plain).set_params(cache_size=cache_size).fit(X, y)
        assert_same_model(clf, expected)
        assert_close(clf.decision_function(X), expected.decision_function(X), 1e-10)
        np.testing.assert_allclose(
            [clf.certificate_.margin, clf.certificate_.bound],
            [expected.certificate_.margin, expected.certificate_.bound],
            rtol=1e-9,
        )


@every_case
@pytest.mark.parametrize("soft_margin", everything_or([RIDGE], [0.0, RIDGE]))
def test_any_way_to_cut_a_stream(monkeypatch, case, soft_margin):
    plain = case.settings("rbf", True, soft_margin)
    expected = feed(clone(plain), X, y, ROWS)
    for size in (1, 7):
        assert_same_model(feed(clone(plain), X, y, size), expected)
    cut_into(monkeypatch, block=5, chunk=3)
    assert_same_model(feed(clone(plain), X, y, ROWS), expected)
    assert_same_model(feed(clone(plain), X, y, 7), expected)


@pytest.mark.parametrize(
    "learner",
    everything_or([PUMMA(delta=0.05)], [PUMMA(delta=0.05), ROMMA(delta=0.05)]),
    ids=label,
)
@pytest.mark.parametrize("most_rows", [0, 35, 1000])
def test_rows_that_are_presented_again_and_again(monkeypatch, learner, most_rows):
    """Shuffled, and in blocks of the rows that still matter, until nothing is left to learn."""
    rows, labels = separable(n=120, d=3, gap=0.3)
    plain = clone(learner).set_params(kernel="rbf", gamma=0.02, random_state=0)
    expected = clone(plain).fit(rows, labels)
    assert expected.converged_
    cut_into(monkeypatch, block=6, most_waiting=20, chunk=50)
    sizes, enter = [], kernel_fit.KernelFit.enter

    def watched(training, ids, **how):
        sizes.append(ids.size)
        return enter(training, ids, **how)

    monkeypatch.setattr(kernel_fit.KernelFit, "enter", watched)
    clf = clone(plain).set_params(cache_size=8e-6 * max(most_rows**2, 0.1)).fit(rows, labels)
    if most_rows == 1000:
        assert sizes == [120]
    else:
        focused = [size for size in sizes if size > 6]
        assert max(sizes) <= max(most_rows, 6)
        assert bool(focused) == (most_rows == 35)
    assert_same_model(clf, expected, rtol=1e-8)
    assert clf.n_iter_ == expected.n_iter_


def test_prediction_in_chunks(monkeypatch):
    rows, labels = three_classes(n=60, d=4)
    clf = PassiveAggressive(kernel="rbf", gamma=0.5, random_state=0, max_iter=2).fit(rows, labels)
    at_once = clf.decision_function(rows)
    assert at_once.shape == (60, 3)
    cut_into(monkeypatch, block=512, chunk=13)
    np.testing.assert_allclose(clf.decision_function(rows), at_once, rtol=1e-12, atol=1e-12)
    one = np.concatenate([clf.decision_function(rows[i : i + 1]) for i in range(60)])
    np.testing.assert_allclose(one, at_once, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- kernels that mean the same thing
@pytest.mark.parametrize(
    "learner",
    [
        AMIRA(epsilon=0.3),
        PUMMA(delta=0.2),
        Perceptron(average=True),
        Pegasos(lambda_=0.1),
        ROMMA(delta=0.2),
    ],
    ids=label,
)
@pytest.mark.parametrize("soft_margin", [0.0, RIDGE])
def test_linear_kernel_is_the_primal_learner(learner, soft_margin):
    plain = clone(learner).set_params(soft_margin=soft_margin, max_iter=PASSES, random_state=0)
    primal = clone(plain).fit(X, y)
    called = clone(plain).set_params(kernel=product).fit(X, y)
    precomputed = clone(plain).set_params(kernel="precomputed").fit(X @ X.T, y)
    assert_close(called.dual_coef_ @ called.support_vectors_, primal.coef_, 1e-9)
    assert_close(called.intercept_, primal.intercept_, 1e-9)
    assert_close(called.decision_function(X), primal.decision_function(X), 1e-9)
    assert (called.n_updates_, called.n_mistakes_) == (primal.n_updates_, primal.n_mistakes_)
    margins = called.certificate_.margin, primal.certificate_.margin
    np.testing.assert_allclose(*margins, rtol=1e-9)
    assert_same_model(precomputed, called)
    assert_close(precomputed.decision_function(X[:9] @ X.T), called.decision_function(X[:9]), 1e-9)
    assert str(precomputed.certificate_) == str(called.certificate_)


@every_kernel
@pytest.mark.parametrize("learner", [AMIRA(), PUMMA()], ids=label)
def test_precomputed_is_computed(learner, kernel):
    plain = clone(learner).set_params(soft_margin=RIDGE, max_iter=PASSES, random_state=0)
    computed = clone(plain).set_params(**PARAMETERS[kernel]).fit(X, y)
    given = clone(plain).set_params(kernel="precomputed").fit(GRAMS[kernel], y)
    assert_same_model(given, computed)
    assert_close(given.decision_function(GRAMS[kernel]), computed.decision_function(X), 1e-10)
    np.testing.assert_array_equal(given.predict(GRAMS[kernel]), computed.predict(X))
    assert given.support_vectors_.size == 0


@every_kernel
@pytest.mark.parametrize("learner", [AMIRA(), PUMMA()], ids=label)
def test_sparse_is_dense(monkeypatch, learner, kernel):
    rows = X * (np.abs(X) > 0.5)
    stored = sparse.csr_matrix(rows)
    plain = clone(learner).set_params(**PARAMETERS[kernel], soft_margin=RIDGE, random_state=0)
    plain.set_params(max_iter=PASSES)
    for cache_size in (200.0, 1e-6):
        cut_into(monkeypatch, block=19, most_waiting=30)
        plain.set_params(cache_size=cache_size)
        dense, clf = clone(plain).fit(rows, y), clone(plain).fit(stored, y)
        assert_same_model(clf, dense)
        assert sparse.issparse(clf.support_vectors_)
        np.testing.assert_array_equal(clf.support_vectors_.toarray(), dense.support_vectors_)
        for one in (dense, clf):
            for these in (rows, stored):
                assert_close(one.decision_function(these), dense.decision_function(rows), 1e-10)


@pytest.mark.parametrize("learner", [AMIRA(), PUMMA()], ids=label)
def test_streams_of_dense_and_sparse_chunks(learner):
    plain = clone(learner).set_params(**PARAMETERS["rbf"])
    expected = feed(clone(plain), X, y, ROWS)
    for first in (0, 1):
        clf = clone(plain)
        for number, start in enumerate(range(0, ROWS, 15), start=first):
            rows = X[start : start + 15]
            chunk = sparse.csr_matrix(rows) if number % 2 else rows
            clf.partial_fit(chunk, y[start : start + 15], classes=[-1, 1])
        assert_same_model(clf, expected)
        assert_close(clf.decision_function(X), expected.decision_function(X), 1e-10)


def test_a_callable_gets_sparse_rows_as_they_are():
    plain = AMIRA(kernel=product, soft_margin=RIDGE, max_iter=2, random_state=0)
    assert_same_model(clone(plain).fit(sparse.csr_matrix(X), y), clone(plain).fit(X, y))


# --------------------------------------------------------------------------------------- precision
def test_single_precision():
    rows, labels = separable(n=80, d=3, gap=0.3)
    single = rows.astype(np.float32)
    plain = PUMMA(delta=0.1, kernel="rbf", gamma=0.2, random_state=0)
    double = clone(plain).fit(rows, labels)
    for clf in (
        clone(plain).fit(single, labels),
        clone(plain).set_params(kernel_dtype="float32").fit(rows, labels),
    ):
        assert state_of(clf).model.kernel.dtype == np.float32
        assert clf.dual_coef_.dtype == np.float64
        outputs = clf.decision_function(rows)
        assert_close(outputs, double.decision_function(rows), 1e-3)
        assert np.any(outputs != double.decision_function(rows))
        np.testing.assert_allclose(clf.certificate_.margin, double.certificate_.margin, rtol=1e-3)
        assert clf.certificate_.bound >= double.certificate_.margin
    clf = clone(plain).set_params(kernel_dtype="float64").fit(single, labels)
    assert state_of(clf).model.kernel.dtype == np.float64
    assert_same_model(clf, clone(plain).fit(single.astype(np.float64), labels))


def test_many_rows_are_taken_in_single_precision(monkeypatch):
    monkeypatch.setattr(kernel_models, "MANY_ROWS", ROWS)
    plain = AMIRA(**PARAMETERS["rbf"], max_iter=1, random_state=0)
    assert state_of(clone(plain).fit(X, y)).model.kernel.dtype == np.float32
    assert state_of(clone(plain).fit(X[1:], y[1:])).model.kernel.dtype == np.float64
    asked = clone(plain).set_params(kernel_dtype="float64").fit(X, y)
    assert state_of(asked).model.kernel.dtype == np.float64


def test_precision_does_not_depend_on_the_chunks(monkeypatch):
    monkeypatch.setattr(kernel_models, "MANY_ROWS", 30)
    plain = AMIRA(**PARAMETERS["rbf"])
    assert_same_model(feed(clone(plain), X, y, ROWS), feed(clone(plain), X, y, 7))


# ---------------------------------------------------------------------------------------- supports
@every_case
def test_a_row_is_one_support(case):
    clf = case.settings("rbf", True, 0.0).set_params(max_iter=PASSES).fit(X, y)
    assert np.all(np.diff(clf.support_) > 0)
    np.testing.assert_array_equal(clf.support_vectors_, X[clf.support_])
    assert clf.dual_coef_.shape == (1, clf.support_.size)
    assert np.all(clf.dual_coef_ != 0.0)
    if not isinstance(clf, Perceptron):  # the others come back to rows that they had
        assert clf.n_updates_ > clf.support_.size


def test_supports_of_a_stream_are_its_rows():
    clf = feed(PUMMA(delta=0.2, **PARAMETERS["rbf"]), X, y, 7)
    assert 2 < clf.support_.size < ROWS
    np.testing.assert_array_equal(clf.support_vectors_, X[clf.support_])
    assert np.all(clf.dual_coef_ != 0.0)


def test_supports_without_a_coefficient_are_forgotten():
    """ROMMA starts anew where the shortest w for the new row meets its other demand as well."""
    clf = ROMMA(delta=0.0, kernel=product, gamma=1.0, fit_intercept=False)
    clf.partial_fit([[10.0, 0.0]], [1], classes=[-1, 1])
    clf.partial_fit([[0.1, 0.0]], [1])
    np.testing.assert_array_equal(clf.support_, [1])
    np.testing.assert_allclose(clf.dual_coef_, [[100.0]])


def test_what_is_there_with_a_kernel():
    clf, linear = AMIRA(**PARAMETERS["rbf"], random_state=0), AMIRA(random_state=0)
    for name in ("support_", "dual_coef_", "support_vectors_", "coef_"):
        with pytest.raises(NotFittedError):
            getattr(clf, name)
    clf.fit(X, y)
    linear.set_params(max_iter=1).fit(X, y)
    with pytest.raises(AttributeError, match=r"coef_ .* dual_coef_"):
        _ = clf.coef_
    for name in ("support_", "support_vectors_", "dual_coef_"):
        with pytest.raises(AttributeError, match="only with a kernel"):
            getattr(linear, name)


def test_pumma_puts_the_pair_on_margin_one():
    clf, pair, updates = PUMMA(delta=0.1, **PARAMETERS["rbf"]), {y[0]: 0}, 0
    for i in range(ROWS):
        clf.partial_fit(X[i : i + 1], y[i : i + 1], classes=[-1, 1])
        if clf.n_updates_ > updates:
            updates, pair[y[i]] = clf.n_updates_, i
            np.testing.assert_allclose(
                clf.decision_function(X[[pair[-1], pair[1]]]), [-1.0, 1.0], rtol=1e-9
            )
    assert updates > 10


# ------------------------------------------------------------------------------------ certificates
@every_kernel
@pytest.mark.parametrize(
    "learner",
    [PUMMA(delta=0.05), ROMMA(delta=0.05), AMIRA(epsilon=0.3), Perceptron(margin=1.0)],
    ids=label,
)
@pytest.mark.parametrize("soft_margin", [0.0, RIDGE])
@pytest.mark.parametrize("intercept", [False, True])
def test_certificates_hold(learner, kernel, soft_margin, intercept):
    rows, labels = separable(n=40, d=3, gap=0.3, shift=0.2)
    plain = clone(learner).set_params(**PARAMETERS[kernel], soft_margin=soft_margin)
    clf = plain.set_params(fit_intercept=intercept, random_state=0).fit(rows, labels)
    assert clf.converged_
    compute = {"rbf": reference_kernel.rbf, "poly": reference_kernel.poly}[kernel]
    settings = {name: value for name, value in PARAMETERS[kernel].items() if name != "kernel"}
    K = compute(rows, rows, **settings) + soft_margin * np.eye(40)
    best = reference_kernel.max_margin(K, labels, intercept)
    certificate = clf.certificate_
    assert certificate.bound >= best * (1 - 1e-6)
    assert 0.0 < certificate.margin <= best * (1 + 1e-6)
    if isinstance(clf, PUMMA) or (isinstance(clf, ROMMA) and not intercept):
        assert certificate.margin >= 0.95 * best
        assert certificate.ratio >= 0.95 * (1 - 1e-9)


def test_certificate_of_each_class():
    rows, labels = three_classes(n=45, d=3)
    clf = PUMMA(delta=0.05, **PARAMETERS["rbf"], random_state=0).fit(rows, labels)
    K = reference_kernel.rbf(rows, rows, 0.5)
    for c, certificate in enumerate(clf.certificate_.classes):
        best = reference_kernel.max_margin(K, np.where(labels == c, 1, -1), True)
        assert 0.95 * best <= certificate.margin <= best * (1 + 1e-6)
        assert certificate.bound >= best * (1 - 1e-6)


def test_tol_ends_a_fit():
    rows, labels = separable(n=60, d=3, gap=0.3)
    plain = PUMMA(delta=0.001, kernel="rbf", gamma=0.2, random_state=0)
    full, clf = clone(plain).fit(rows, labels), clone(plain).set_params(tol=0.2).fit(rows, labels)
    assert clf.converged_
    assert clf.certificate_.ratio >= 0.8
    assert clf.n_updates_ < full.n_updates_


@pytest.mark.parametrize("learner", [PUMMA(), AMIRA(), Pegasos(lambda_=0.1)], ids=label)
def test_certificate_after_a_warm_start_with_other_labels(learner):
    """Coefficients that were learned for the old labels prove nothing about the new ones."""
    others = np.where(X[:, 2] > 0, 1, -1)
    best = reference_kernel.max_margin(GRAMS["rbf"], others, True)
    clf = clone(learner).set_params(**PARAMETERS["rbf"], random_state=0, max_iter=20)
    clf.fit(X, y).set_params(warm_start=True).fit(X, others)
    assert clf.certificate_.bound >= best * (1 - 1e-6)
    assert clf.certificate_.margin <= best * (1 + 1e-6)


# -------------------------------------------------------------------------------------- truncation
def test_norma_drops_what_has_decayed():
    settings = {"rate": 0.5, "decay": 0.5, "margin": 100.0, "fit_intercept": False}
    plain = NORMA(**settings, **PARAMETERS["rbf"])
    whole = feed(clone(plain).set_params(truncation=0.0), X, y, 1)
    assert whole.support_.size == ROWS
    clf = feed(clone(plain).set_params(truncation=0.01), X, y, 1)
    # 0.75**16 is just above 0.01.
    np.testing.assert_array_equal(clf.support_, np.arange(ROWS - 17, ROWS))
    np.testing.assert_array_equal(clf.support_vectors_, X[clf.support_])
    change = np.abs(clf.decision_function(X) - whole.decision_function(X)).max()
    assert 0.0 < change <= 0.01 / 0.5
    fitted = clone(plain).set_params(truncation=0.01, max_iter=1, shuffle=False).fit(X, y)
    assert_same_model(fitted, clf)
    never = feed(clone(plain).set_params(truncation=0.01, decay=0.0), X, y, 1)
    assert never.support_.size == ROWS


# --------------------------------------------------------------------------------------- bad input
def refused(learner, rows, message, **settings):
    """An error that says so, for a new and for a fitted learner, and nothing else happens."""
    new = clone(learner).set_params(**settings)
    with pytest.raises(ValueError, match=message):
        new.fit(rows, y)
    assert not hasattr(new, "classes_")
    fitted = clone(learner).set_params(**PARAMETERS["rbf"], random_state=0, max_iter=2).fit(X, y)
    before = memory(fitted)
    fitted.set_params(**settings)
    with pytest.raises(ValueError, match=message):
        fitted.fit(rows, y)
    assert memory(fitted.set_params(**PARAMETERS["rbf"])) == before


BAD_KERNELS = {
    "not square": ("precomputed", GRAMS["rbf"][:, :30], r"'precomputed' .* square .*\(60, 30\)"),
    "sparse": ("precomputed", sparse.csr_matrix(GRAMS["rbf"]), "'precomputed' needs a dense"),
    "NaN in the matrix": (
        "precomputed",
        np.where(np.eye(ROWS) > 0, np.nan, GRAMS["rbf"]),
        r"NaN \(row 0, column 0\)",
    ),
    "shape": (lambda a, b: (a @ b.T)[:, :1], X, r"shape \(32, 1\) .* must be \(32, 32\)"),
    "NaN": (lambda a, b: np.where(a @ b.T > 1, np.nan, 1.0), X, "kernel returned NaN"),
    "infinity": (lambda a, b: np.where(a @ b.T > 1, np.inf, 1.0), X, "kernel returned .*infinity"),
}


@pytest.mark.parametrize(("kernel", "rows", "message"), BAD_KERNELS.values(), ids=BAD_KERNELS)
@pytest.mark.parametrize("learner", [AMIRA(), PUMMA()], ids=label)
def test_bad_kernels(learner, kernel, rows, message):
    refused(learner, rows, message, kernel=kernel)


@pytest.mark.parametrize("Learner", [ALMA, NORMA, PUMMA, Perceptron, TrackingALMA])
@pytest.mark.parametrize("p", [3.0, "log"])
def test_other_norms(Learner, p):
    with pytest.raises(ValueError, match="'p' parameter must be 2 with a kernel"):
        Learner(p=p, kernel="rbf").fit(X, y)


@pytest.mark.parametrize("labels", [2, 3])
def test_bisection_with_a_linear_kernel_is_that_without(labels):
    classes = np.digitize((X**2).sum(axis=1), [1.0, 3.0][: labels - 1])
    settings = {"soft_margin": 0.5, "max_checks": 12_000, "random_state": 0}
    primal = BisectionPerceptron(**settings).fit(X, classes)
    for kernel, rows in ((lambda a, b: a @ b.T, X), ("precomputed", X @ X.T)):
        clf = BisectionPerceptron(kernel=kernel, **settings).fit(rows, classes)
        assert clf.n_updates_ == primal.n_updates_
        assert clf.certificate_.margin == pytest.approx(primal.certificate_.margin, rel=1e-9)
        outputs = primal.decision_function(X)
        np.testing.assert_allclose(clf.decision_function(rows), outputs, rtol=1e-9, atol=1e-9)


def test_values_that_overflow():
    huge = {"kernel": "poly", "gamma": 1e3, "degree": 200}
    refused(AMIRA(), X, r"kernel of row 0 with itself is not finite", **huge)
    new = AMIRA(**huge)
    with pytest.raises(ValueError, match=r"kernel of row 0 with itself is not finite"):
        new.partial_fit(X, y, classes=[-1, 1])
    assert not hasattr(new, "classes_")


def test_streams_that_cannot_be():
    for kernel, gamma, message in (
        ("rbf", "scale", 'gamma="scale" needs all rows'),
        ("poly", "scale", 'gamma="scale" needs all rows'),
        ("precomputed", 1.0, "partial_fit cannot use kernel='precomputed'"),
    ):
        clf = AMIRA(kernel=kernel, gamma=gamma)
        rows = GRAMS["rbf"] if kernel == "precomputed" else X
        with pytest.raises(ValueError, match=message):
            clf.partial_fit(rows, y, classes=[-1, 1])
        assert not hasattr(clf, "classes_")
    clf = AMIRA(kernel="precomputed", max_iter=2, random_state=0).fit(GRAMS["rbf"], y)
    before = clf.dual_coef_.tolist(), clf.n_updates_, str(clf.certificate_)
    with pytest.raises(ValueError, match="partial_fit cannot use kernel='precomputed'"):
        clf.partial_fit(GRAMS["rbf"], y)
    assert (clf.dual_coef_.tolist(), clf.n_updates_, str(clf.certificate_)) == before


def test_gamma_is_not_asked_of_kernels_without_it():
    plain = AMIRA(kernel=product, max_iter=1, shuffle=False)
    assert_same_model(feed(clone(plain), X, y, 7), clone(plain).fit(X, y))
    with pytest.raises(ValueError, match="partial_fit cannot use kernel='precomputed'"):
        AMIRA(kernel="precomputed").partial_fit(GRAMS["rbf"], y, classes=[-1, 1])


@pytest.mark.parametrize("calls", [1, 3, 8])
@pytest.mark.parametrize("warm_start", [False, True])
@pytest.mark.parametrize("learner", [AMIRA(), PUMMA()], ids=label)
def test_a_kernel_that_fails_in_the_midst_of_a_fit(monkeypatch, learner, calls, warm_start):
    cut_into(monkeypatch, block=16, most_waiting=20)
    kernel = FaultyKernel(product)
    clf = clone(learner).set_params(
        kernel=kernel, gamma=1.0, soft_margin=RIDGE, max_iter=3, cache_size=1e-6, random_state=0
    )
    clf = clf.fit(X, y).set_params(warm_start=warm_start)
    before = memory(clf)
    clf.kernel.calls = calls
    with pytest.raises(RuntimeError, match="no more"):
        clf.fit(X[::-1] if not warm_start else X, y)
    assert clf.kernel.calls <= 0
    assert memory(clf) == before


@pytest.mark.parametrize("calls", [1, 4, 7, 10])
@pytest.mark.parametrize(
    "learner", [AMIRA(), PUMMA(), Perceptron(average=True), NORMA()], ids=label
)
def test_a_kernel_that_fails_in_the_midst_of_a_stream(monkeypatch, learner, calls):
    cut_into(monkeypatch, block=8)
    clf = clone(learner).set_params(kernel=FaultyKernel(product), gamma=1.0, soft_margin=RIDGE)
    clf.partial_fit(X[:20], y[:20], classes=[-1, 1])
    other = clone(clf).partial_fit(X[:20], y[:20], classes=[-1, 1])
    before = memory(clf)
    clf.kernel.calls = calls
    with pytest.raises(RuntimeError, match="no more"):
        clf.partial_fit(X[20:], y[20:])
    assert memory(clf) == before
    assert_same_model(clf.partial_fit(X[20:], y[20:]), other.partial_fit(X[20:], y[20:]))


# ----------------------------------------------------------------------------- living with a model
def test_a_model_keeps_nothing_but_its_supports():
    rows, labels = separable(n=120, d=2, gap=1.0)
    for clf in (
        AMIRA(epsilon=1.0, kernel="rbf", gamma=0.1, random_state=0).fit(rows, labels),
        AMIRA(epsilon=1.0, kernel="precomputed", random_state=0).fit(
            reference_kernel.rbf(rows, rows, 0.1), labels
        ),
    ):
        assert clf.support_.size < 20
        model = state_of(clf).model
        assert max(array.shape[-1] for _, array in arrays_of(model) if array.ndim) <= 20
        assert model.supports.points.size() == clf.support_.size
        assert model.training is None
        assert len(pickle.dumps(clf)) < 8 * 120 * 120 / 4


@pytest.mark.parametrize(
    "learner",
    [AMIRA(), PUMMA(), Perceptron(average=True), MICRA(), Pegasos(lambda_=0.1)],
    ids=label,
)
def test_warm_start_goes_on(learner):
    plain = clone(learner).set_params(**PARAMETERS["rbf"], soft_margin=RIDGE, shuffle=False)
    expected = clone(plain).set_params(max_iter=PASSES).fit(X, y)
    clf = clone(plain).set_params(max_iter=1, warm_start=True)
    for number in range(PASSES):
        clf.fit(sparse.csr_matrix(X) if number == 1 else X, y)
    assert_same_model(clf, expected)
    np.testing.assert_allclose(clf.certificate_.margin, expected.certificate_.margin, rtol=1e-9)


@pytest.mark.parametrize("learner", [AMIRA(), PUMMA()], ids=label)
def test_warm_start_goes_on_with_a_given_matrix(learner):
    plain = clone(learner).set_params(kernel="precomputed", soft_margin=RIDGE, shuffle=False)
    expected = clone(plain).set_params(max_iter=2).fit(GRAMS["rbf"], y)
    clf = clone(plain).set_params(max_iter=1, warm_start=True)
    assert_same_model(clf.fit(GRAMS["rbf"], y).fit(GRAMS["rbf"], y), expected)


def test_warm_start_with_other_rows():
    clf = AMIRA(**PARAMETERS["rbf"], max_iter=2, random_state=0, warm_start=True).fit(X, y)
    before = memory(clf)
    changed = X.copy()
    changed[clf.support_[3]] += 0.1
    for rows in (X[::-1], X[: ROWS // 2], changed, sparse.csr_matrix(changed)):
        with pytest.raises(ValueError, match="needs the rows of the last fit"):
            clf.fit(rows, y[: rows.shape[0]])
        assert memory(clf) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel", "poly"),
        ("gamma", 0.1),
        ("degree", 2),
        ("coef0", 1.0),
        ("kernel_dtype", "float32"),
    ],
)
def test_the_kernel_of_a_fitted_model_stays(name, value):
    clf = AMIRA(**PARAMETERS["rbf"], max_iter=2, random_state=0).fit(X, y)
    before, old = memory(clf), getattr(clf, name)
    clf.set_params(**{name: value})
    with pytest.raises(ValueError, match=f"'{name}' parameter of AMIRA cannot change"):
        clf.partial_fit(X, y)
    with pytest.raises(ValueError, match=f"'{name}' parameter of AMIRA cannot change"):
        clf.set_params(warm_start=True).fit(X, y)
    assert memory(clf.set_params(**{name: old})) == before
