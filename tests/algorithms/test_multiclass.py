"""Classes that are learned together: k-best and 1-best, with features and with kernels."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import reference_multiclass as reference
from algorithms.agreement import Stream, magnitudes
from algorithms.theory import ROUNDING
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import label, separable, three_classes
from reference_kernel import rbf
from reference_pnorm import soft
from scipy import sparse
from sklearn.base import clone

from maxmargin import AMIRA, ROMMA, Certificate, PassiveAggressive, Perceptron
from maxmargin.certificates.joint_bounds import joint_bound
from maxmargin.core.joint_loop import learn_jointly
from maxmargin.core.loop import maintain
from maxmargin.models import kernel_fit, linear_model
from maxmargin.models.kernel_model import JointKernelModel
from maxmargin.models.linear_model import JointModel
from maxmargin.training.protocol import state_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LAMBDA = 0.3
GAMMA = 0.5
FORMS = {"dense": np.asarray, "CSR": sparse.csr_matrix}


class Pair(NamedTuple):
    """A learner, and the name and the settings of its reference."""

    learner: Any
    name: str
    settings: dict

    def follow(self, X, y, classes):
        return reference.learned(self.name, X, y, classes, **self.settings)

    def follow_in_kernel(self, K, y, order, classes):
        return reference.learned_in_kernel(self.name, K, y, order, classes, **self.settings)


def amira(multiclass, name, epsilon, **settings):
    settings["epsilon"] = epsilon
    return Pair(AMIRA(multiclass=multiclass, **settings), name, settings)


def one_best(Learner, name, **settings):
    return Pair(Learner(multiclass="1-best", **settings), name, settings)


PAIRS = [
    amira("k-best", "amira_kbest", 0.3),
    amira("k-best", "amira_kbest", 1.0),
    amira("k-best", "amira_kbest", 0.3, k=2),
    amira("1-best", "amira_1best", 0.3),
    one_best(Perceptron, "perceptron_1best"),
    one_best(Perceptron, "perceptron_1best", margin=0.7, rate=0.4),
    one_best(PassiveAggressive, "passive_aggressive_1best"),
    one_best(PassiveAggressive, "passive_aggressive_1best", C=0.2),
    one_best(PassiveAggressive, "passive_aggressive_1best", C=0.2, loss="squared_hinge"),
    one_best(ROMMA, "romma_1best"),
    one_best(ROMMA, "romma_1best", delta=0.2),
]
LEARNERS = [pair.learner for pair in PAIRS]

every_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: label(pair.learner))
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=label)
every_form = pytest.mark.parametrize("form", FORMS)
with_and_without_intercept = pytest.mark.parametrize("offset", [0.0, 1.7])


def with_offset(X, offset):
    """The rows with the intercept's coordinate."""
    return np.column_stack([X, np.full(len(X), offset)]) if offset > 0.0 else X


def settings_for(offset):
    return {"fit_intercept": offset > 0.0, "intercept_scaling": offset or 1.0}


def in_order(learner, offset=0.0, **params):
    """A fresh copy that presents rows as they come."""
    return clone(learner).set_params(shuffle=False, **settings_for(offset), **params)


def weights(learner, offset):
    if offset == 0.0:
        np.testing.assert_array_equal(learner.intercept_, 0.0)
        return learner.coef_
    return np.column_stack([learner.coef_, learner.intercept_ / offset])


def close(actual, expected, tolerance=1e-9):
    size = np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * size)


# --------------------------------------------------------------------------------- the references


def _stream(rows, width, classes, offset, scale, noise, seed):
    random = np.random.default_rng(seed)
    X = scale * random.normal(size=(rows, width))
    y = np.argmax(X @ random.normal(size=(width, classes)), axis=1)
    relabelled = random.uniform(size=rows) < noise
    y[relabelled] = random.integers(classes, size=relabelled.sum())
    y[:classes] = np.arange(classes)
    if offset == 0.0:
        X[random.uniform(size=rows) < 0.1] = 0.0
    return Stream(X, y, classes, offset)


streams = st.builds(
    _stream,
    rows=st.integers(6, 20),
    width=st.integers(2, 11),
    classes=st.integers(3, 6),
    offset=st.sampled_from([0.0, 0.83, 2.71]),
    scale=st.sampled_from([0.1, 1.0, 10.0]),
    noise=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 2**32 - 1),
)


@every_pair
@settings(max_examples=12, deadline=None)
@given(stream=streams)
def test_follows_the_reference_row_by_row(pair, stream):
    X, y, classes, offset = stream
    trace = pair.follow(with_offset(X, offset), y, classes)
    updates, mistakes = np.cumsum(trace.updated), np.cumsum(trace.mistakes)
    learner = in_order(pair.learner, offset)
    for i in range(len(X)):
        learner.partial_fit(X[i : i + 1], y[i : i + 1], classes=range(classes))
        close(weights(learner, offset), trace.history[i])
        assert (learner.n_updates_, learner.n_mistakes_) == (updates[i], mistakes[i])
    learner.set_params(max_iter=1).fit(sparse.csr_matrix(X), y)
    close(weights(learner, offset), trace.W)
    assert (learner.n_updates_, learner.n_mistakes_) == (updates[-1], mistakes[-1])


def four_classes(n=40, d=4, seed=0):
    """Rows that no learner here separates in a few passes."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    y = np.argmax(X @ random.normal(size=(d, 4)) + 0.5 * random.normal(size=(n, 4)), axis=1)
    y[:4] = np.arange(4)
    return X, y


@every_pair
@every_form
@with_and_without_intercept
def test_soft_margin_is_a_private_coordinate(pair, form, offset):
    X, y = four_classes()
    learner = in_order(pair.learner, offset, soft_margin=LAMBDA, max_iter=3)
    learner.fit(FORMS[form](X), y)
    longer = with_offset(soft(X, LAMBDA), offset)
    trace = pair.follow(np.tile(longer, (3, 1)), np.tile(y, 3), 4)
    own = np.r_[: X.shape[1], longer.shape[1] - 1 : longer.shape[1]] if offset else slice(4)
    close(weights(learner, offset), trace.W[:, own])
    assert learner.n_updates_ == trace.updated.sum()
    assert learner.n_mistakes_ == trace.mistakes.sum()
    norm2 = scalars(learner).norm2[0]
    assert norm2 == pytest.approx(np.sum(trace.W**2), rel=1e-9)
    without_intercept = trace.W if offset == 0.0 else trace.W[:, :-1]
    leads = reference.joint_margin(trace.W, longer, y) * np.linalg.norm(trace.W)
    expected = leads / np.linalg.norm(without_intercept)
    assert learner.certificate_.margin == pytest.approx(expected, rel=1e-8)


def small_blocks(monkeypatch):
    for module in ("models.kernel_model", "kernels.products"):
        monkeypatch.setattr(f"maxmargin.{module}.CHUNK", 17)
    for name, size in {"block": 13, "chunk": 17, "most_waiting": 7}.items():
        monkeypatch.setattr(f"maxmargin.kernels.products.Products.{name}", size)


def coefficients(learner, rows):
    """The coefficients of all training rows, one column per class."""
    each = np.zeros((rows, learner.classes_.size))
    each[learner.support_] = learner.dual_coef_.T
    return each


def assert_follows_in_kernel(pair, learner, X, y, offset, passes=3):
    K = rbf(X, X, GAMMA) + LAMBDA * np.eye(len(X))
    trace = pair.follow_in_kernel(K + offset**2, y, np.tile(np.arange(len(X)), passes), 4)
    A = trace.coefficients
    close(coefficients(learner, len(X)), A, 1e-8)
    assert learner.n_updates_ == trace.updated.sum()
    assert learner.n_mistakes_ == trace.mistakes.sum()
    outputs = (K + offset**2) @ A
    own = np.take_along_axis(outputs, y[:, None], axis=1)[:, 0]
    np.put_along_axis(outputs, y[:, None], -np.inf, axis=1)
    margin = np.min(own - outputs.max(axis=1)) / np.sqrt(np.sum(A * (K @ A)))
    assert learner.certificate_.margin == pytest.approx(margin, rel=1e-7)
    if offset == 0.0:
        bound = reference.joint_bound(K, y, trace.multipliers)
        assert learner.certificate_.bound == pytest.approx(bound, rel=1e-7)


@every_pair
@with_and_without_intercept
@pytest.mark.parametrize("blocks", ["one", "small"])
def test_follows_the_reference_in_a_kernel_space(monkeypatch, pair, offset, blocks):
    X, y = four_classes()
    learner = in_order(pair.learner, offset, kernel="rbf", gamma=GAMMA, soft_margin=LAMBDA)
    learner.set_params(max_iter=3)
    if blocks == "small":
        small_blocks(monkeypatch)
        learner.set_params(cache_size=1e-3)
    assert_follows_in_kernel(pair, learner.fit(X, y), X, y, offset)


@every_pair
def test_sparse_rows_in_a_kernel_space(pair):
    X, y = four_classes()
    learner = in_order(pair.learner, kernel="rbf", gamma=GAMMA, soft_margin=LAMBDA, max_iter=3)
    assert_follows_in_kernel(pair, learner.fit(sparse.csr_matrix(X), y), X, y, 0.0)


@every_pair
@with_and_without_intercept
def test_streams_in_a_kernel_space(pair, offset):
    X, y = four_classes()
    K = rbf(X, X, GAMMA) + offset**2
    trace = pair.follow_in_kernel(K, y, np.arange(len(X)), 4)
    learner = in_order(pair.learner, offset, kernel="rbf", gamma=GAMMA)
    for start in range(0, len(X), 7):
        part = slice(start, start + 7)
        learner.partial_fit(X[part], y[part], classes=range(4))
    close(learner.decision_function(X), K @ trace.coefficients, 1e-8)
    assert learner.n_updates_ == trace.updated.sum()
    assert learner.n_mistakes_ == trace.mistakes.sum()


@pytest.mark.compiled
def test_compiled_loops_have_the_bits_of_their_meaning(monkeypatch):
    X, y = four_classes(n=20)
    for learner in (AMIRA(epsilon=0.3), ROMMA(delta=0.2, multiclass="1-best")):
        for kernel in ("linear", "rbf"):
            clf = in_order(learner, 1.7, kernel=kernel, gamma=GAMMA, max_iter=2)
            compiled = clone(clf).fit(X, y)
            with monkeypatch.context() as patch:
                run_plainly(patch)
                plain = clone(clf).fit(X, y)
            assert scalars(compiled).tobytes() == scalars(plain).tobytes()
            assert state_of(compiled).model.tally.tobytes() == state_of(plain).model.tally.tobytes()
            np.testing.assert_array_equal(compiled.decision_function(X), plain.decision_function(X))
            assert compiled.certificate_ == plain.certificate_


def scalars(learner):
    model = state_of(learner).model
    return (model if getattr(learner, "kernel", "linear") == "rbf" else model.linear).scalars.table


def run_plainly(patch, tidy=maintain.plain):
    """Run the joint loop without compiled code."""
    for kind in (JointModel, JointKernelModel):
        patch.setattr(kind, "loop", staticmethod(learn_jointly.plain))
    patch.setattr(linear_model, "maintain", tidy)
    patch.setattr(kernel_fit, "run_loop", partial(kernel_fit.run_loop, maintain=tidy))


# --------------------------------------------------------------------------------- single trials


@settings(max_examples=40, deadline=None)
@given(stream=streams, epsilon=st.floats(0.01, 1.0), k=st.sampled_from([None, 1, 2, 3]))
def test_a_step_lifts_the_highest_rivals_to_margin_one(stream, epsilon, k):
    X, y, classes, offset = stream
    clf = AMIRA(epsilon=epsilon, k=k, **settings_for(offset))
    clf.partial_fit(X[:1], y[:1], classes=range(classes))
    for x, own in zip(X, y, strict=True):
        if not with_offset(x[None], offset).any():
            continue
        before = leads(clf, x, own)
        processed = np.sort(before)[:k] <= 1.0 - epsilon
        updates = clf.n_updates_
        clf.partial_fit(x[None], [own])
        after = leads(clf, x, own)
        assert clf.n_updates_ - updates == processed.any()
        highest = np.argsort(before, kind="stable")[: processed.sum()]
        close_to_one = 1e-9 * (1.0 + np.abs(before).max())
        assert np.all(after[highest] >= 1.0 - close_to_one)
        assert np.all(after >= before - close_to_one)
        if processed.any():
            # What is below 1 is raised, and the worst one no further than to 1.
            assert after[highest].min() == pytest.approx(1.0, abs=close_to_one)


def leads(clf, x, own):
    """By how much the class ``own`` leads over each rival on the row x."""
    outputs = clf.decision_function(x[None])[0]
    return np.delete(outputs[own] - outputs, own)


def test_a_tie_with_the_right_class_is_a_mistake():
    x = [[1.0, 0.0]]
    clf = Perceptron(multiclass="1-best", fit_intercept=False)
    clf.partial_fit(x, [0], classes=[0, 1, 2])
    assert clf.n_mistakes_ == 1  # all outputs are 0, and argmax would be right
    clf.partial_fit(x, [0])
    assert clf.n_mistakes_ == 1
    clf.partial_fit([[0.0, 1.0]], [2])
    assert clf.n_mistakes_ == 2
    # Outputs 1, -1, 0: class 0 leads. On the other side, -1, 1, 0: class 1 does.
    clf.partial_fit([[-1.0, 0.0]], [1])
    assert clf.n_mistakes_ == 2


def test_the_average_is_the_mean_over_all_trials():
    X, y = four_classes()
    passes = 3
    rows = np.tile(with_offset(X, 1.7), (passes, 1))
    trace = reference.learned("perceptron_1best", rows, np.tile(y, passes), 4)
    clf = Perceptron(average=True, multiclass="1-best")
    for form in FORMS.values():
        fitted = in_order(clf, 1.7, max_iter=passes).fit(form(X), y)
        close(weights(fitted, 1.7), trace.history.mean(axis=0))
    K = rbf(X, X, GAMMA)
    fitted = in_order(clf, kernel="rbf", gamma=GAMMA, max_iter=passes).fit(X, y)
    order = np.tile(np.arange(len(X)), passes)
    trace = reference.learned_in_kernel("perceptron_1best", K, y, order, 4)
    close(coefficients(fitted, len(X)), trace.history.mean(axis=0))


# ------------------------------------------------------------------------------------ two classes


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("Learner", [AMIRA, PassiveAggressive, Perceptron, ROMMA])
def test_two_classes_are_one_problem_whatever_multiclass_says(Learner, kernel):
    X, y = separable(n=30, d=3)
    (constraint,) = Learner._parameter_constraints["multiclass"]
    fits = [
        Learner(multiclass=each, kernel=kernel, max_iter=3, random_state=0).fit(X, y)
        for each in constraint.options
    ]
    assert len(fits) >= 2
    for clf in fits:
        np.testing.assert_array_equal(clf.decision_function(X), fits[0].decision_function(X))
        assert clf.decision_function(X).shape == (30,)
        assert clf.certificate_ == fits[0].certificate_
        assert clf.n_updates_ == fits[0].n_updates_


def test_pairs_are_for_one_class_against_the_rest():
    X, y = three_classes(n=30)
    clf = AMIRA(intercept="pair", max_iter=2, random_state=0)
    expected = clone(clf).set_params(multiclass="ovr").fit(X, y)
    assert len(expected.certificate_.classes) == 3
    for multiclass in ("k-best", "1-best"):
        clf.set_params(multiclass=multiclass).fit(X, y)
        np.testing.assert_array_equal(clf.decision_function(X), expected.decision_function(X))
        assert clf.certificate_ == expected.certificate_


# ------------------------------------------------------------------------------------- theorems


def _separable_jointly(n, classes, further, gap, seed):
    """Rows on which the class of each leads by ``gap`` along orthonormal vectors."""
    random = np.random.default_rng(seed)
    d = classes + further
    V = np.linalg.qr(random.normal(size=(d, d)))[0][:classes]
    X = random.normal(size=(n, d))
    y = np.argmax(X @ V.T, axis=1)
    y[:classes] = np.arange(classes)
    lead = np.max(X @ V.T, axis=1) - (X @ V.T)[np.arange(n), y]
    X += (lead + gap)[:, None] * V[y]
    return X, y, classes


separable_problems = st.builds(
    _separable_jointly,
    n=st.integers(4, 20),
    classes=st.integers(3, 4),
    further=st.integers(0, 2),
    gap=st.floats(0.3, 1.5),
    seed=st.integers(0, 2**32 - 1),
)


def converged(learner, X, y):
    learner = clone(learner).set_params(fit_intercept=False, max_iter=100_000, random_state=0)
    learner.fit(X, y)
    assert learner.converged_
    return learner


def joint_radius(X):
    """The largest norm of a constraint's vector."""
    return np.sqrt(2.0) * np.linalg.norm(X, axis=1).max()


@pytest.mark.parametrize("most", [{"multiclass": "1-best"}, {"k": 2}, {}], ids=str)
@settings(max_examples=15, deadline=None)
@given(problem=separable_problems, epsilon=st.floats(0.1, 1.0))
def test_amira_converges_within_the_bounds(most, problem, epsilon):
    X, y, classes = problem
    best, _ = reference.max_joint_margin(X, y, classes)
    clf = converged(AMIRA(epsilon=epsilon, **most), X, y)
    assert clf.n_updates_ <= AMIRA.max_updates(epsilon, joint_radius(X), best)
    fraction = AMIRA.margin_fraction(epsilon)
    assert reference.joint_margin(clf.coef_, X, y) >= fraction * best * (1 - ROUNDING)


@pytest.mark.parametrize("most", [{"multiclass": "1-best"}, {}], ids=str)
@settings(max_examples=8, deadline=None)
@given(problem=separable_problems, epsilon=st.floats(0.0, 1.0))
def test_weights_of_amira_never_get_longer_than_the_bound(most, problem, epsilon):
    X, y, classes = problem
    best, _ = reference.max_joint_margin(X, y, classes)
    limit = AMIRA.max_norm(epsilon, best) * (1 + ROUNDING)
    clf = AMIRA(epsilon=epsilon, fit_intercept=False, **most)
    for _ in range(3):
        for x, own in zip(X, y, strict=True):
            clf.partial_fit(x[None], [own], classes=range(classes))
            assert np.linalg.norm(clf.coef_) <= limit


@settings(max_examples=15, deadline=None)
@given(problem=separable_problems, delta=st.floats(0.05, 1.0))
def test_romma_converges_within_the_bounds(problem, delta):
    X, y, classes = problem
    best, _ = reference.max_joint_margin(X, y, classes)
    clf = converged(ROMMA(delta=delta, multiclass="1-best"), X, y)
    assert clf.n_updates_ <= ROMMA.max_updates(delta, joint_radius(X), best) * (1 + ROUNDING)
    assert reference.joint_margin(clf.coef_, X, y) >= (1 - delta) * best * (1 - ROUNDING)


@settings(max_examples=15, deadline=None)
@given(problem=separable_problems, margin=magnitudes(0.01, 10.0))
def test_perceptron_converges_within_the_bounds(problem, margin):
    X, y, classes = problem
    best, _ = reference.max_joint_margin(X, y, classes)
    clf = converged(Perceptron(margin=margin, multiclass="1-best"), X, y)
    radius = joint_radius(X)
    assert clf.n_updates_ <= Perceptron.max_updates(radius, best, threshold=margin)
    fraction = Perceptron.margin_fraction(radius, threshold=margin)
    assert reference.joint_margin(clf.coef_, X, y) >= fraction * best * (1 - ROUNDING)


# ---------------------------------------------------------------------------------- certificates


def free_joint_margin(X, y, classes):
    """Nearly the largest joint margin with free intercepts, and surely no more than that.

    The intercepts are weights of a coordinate that is so large that they cost next to nothing.
    """
    large = 300.0 * np.linalg.norm(X, axis=1).max()
    _, W = reference.max_joint_margin(with_offset(X, large), y, classes)
    outputs = with_offset(X, large) @ W.T
    own = outputs[np.arange(len(X)), y]
    outputs[np.arange(len(X)), y] = -np.inf
    return np.min(own - outputs.max(axis=1)) / np.linalg.norm(W[:, :-1])


def test_free_joint_margin_by_hand():
    """The best W for a regular triangle of circumradius 1 is the triangle itself."""
    angles = 2 * np.pi * np.arange(3) / 3
    corners = np.column_stack([np.cos(angles), np.sin(angles)])
    moved = corners + np.array([0.7, -0.2])
    assert free_joint_margin(moved, np.arange(3), 3) == pytest.approx(np.sqrt(0.75), rel=1e-6)


@given(
    second=st.floats(-1.0, 0.99),
    first_mass=st.floats(0.01, 100.0),
    second_mass=st.floats(0.01, 100.0),
)
def test_the_joint_bound_of_two_points_on_a_line(second, first_mass, second_mass):
    """Rows 1 and ``second`` of two classes: the best margin is their distance over sqrt(2).

    Nearly all of the bound is the intercepts' share where the weighted rows cancel.
    """
    W = first_mass - second_mass * second  # in the block of class 0, and -W in that of class 1
    imbalance = np.array([first_mass - second_mass, second_mass - first_mass])
    mass = first_mass + second_mass
    bound = joint_bound(2.0 * W * W, imbalance, mass, radius=1.0, intercept=True)
    assert bound >= (1.0 - second) / np.sqrt(2.0)


@every_learner
@settings(max_examples=5, deadline=None)
@given(problem=separable_problems, passes=st.sampled_from([1, 2, 30]))
def test_no_joint_margin_exceeds_the_bound(learner, problem, passes):
    X, y, classes = problem
    best, _ = reference.max_joint_margin(X, y, classes)
    clf = clone(learner).set_params(max_iter=passes, random_state=0, fit_intercept=False).fit(X, y)
    certificate = clf.certificate_
    assert type(certificate) is Certificate
    assert certificate.classes == ()
    assert certificate.bound >= best
    assert certificate.margin == pytest.approx(reference.joint_margin(clf.coef_, X, y), rel=1e-9)
    assert certificate.margin <= best * (1 + ROUNDING)


@every_learner
@settings(max_examples=5, deadline=None)
@given(
    problem=separable_problems, scaling=st.sampled_from([0.3, 3.0, "max"]), shift=st.floats(0, 3)
)
def test_no_joint_margin_with_free_intercepts_exceeds_the_bound(learner, problem, scaling, shift):
    X, y, classes = problem
    X = X + shift
    best = free_joint_margin(X, y, classes)
    clf = clone(learner).set_params(intercept_scaling=scaling, max_iter=30, random_state=0)
    certificate = clf.fit(X, y).certificate_
    assert certificate.classes == ()
    assert best <= certificate.bound < np.inf
    outputs = clf.decision_function(X)
    own = outputs[np.arange(len(X)), y]
    outputs[np.arange(len(X)), y] = -np.inf
    margin = np.min(own - outputs.max(axis=1)) / np.linalg.norm(clf.coef_)
    assert certificate.margin == pytest.approx(margin, rel=1e-9)
    assert certificate.margin <= best * (1 + 1e-4)


@every_learner
@with_and_without_intercept
def test_bounds_of_streams_hold_after_every_row(learner, offset):
    X, y, classes = _separable_jointly(n=16, classes=3, further=1, gap=0.5, seed=2)
    X = X[np.argsort(y, kind="stable")]  # class after class: some have no row for long
    y = np.sort(y)
    clf = clone(learner).set_params(**settings_for(offset))
    for i in range(len(X)):
        clf.partial_fit(X[i : i + 1], y[i : i + 1], classes=range(classes))
        seen = X[: i + 1], y[: i + 1]
        if offset == 0.0:
            assert clf.certificate_.bound >= reference.max_joint_margin(*seen, classes)[0]
        elif y[i] == 0:
            assert clf.certificate_.bound == np.inf  # an intercept alone separates
        else:
            # A class without rows stays behind by its intercept, whatever its weights.
            assert clf.certificate_.bound >= free_joint_margin(*seen, y[i] + 1)


@pytest.mark.parametrize("learner", [AMIRA(), ROMMA(delta=0.2, multiclass="1-best")], ids=label)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_bounds_of_soft_margins_hold_in_streams_and_after_a_fit(learner, kernel):
    """Private coordinates that are not recorded count in the norm and in the bound."""
    X, y = four_classes(n=24)
    K = rbf(X, X, GAMMA) if kernel == "rbf" else X @ X.T
    longer = soft(np.linalg.cholesky(K + 1e-12 * np.eye(24)), LAMBDA)
    clf = clone(learner).set_params(
        soft_margin=LAMBDA, fit_intercept=False, kernel=kernel, gamma=GAMMA, random_state=0
    )
    from_fit = clone(clf).fit(X[:12], y[:12])
    assert from_fit.converged_
    for start in range(0, 24, 6):
        stop = start + 6
        best, _ = reference.max_joint_margin(longer[:stop], y[:stop], 4)
        clf.partial_fit(X[start:stop], y[start:stop], classes=range(4))
        assert best * (1 - 1e-9) <= clf.certificate_.bound < np.inf
        if start >= 12:
            from_fit.partial_fit(X[start:stop], y[start:stop])
            assert best * (1 - 1e-9) <= from_fit.certificate_.bound < np.inf


@every_learner
@with_and_without_intercept
def test_soft_margins_of_streams_are_private_coordinates(learner, offset):
    X, y = four_classes()
    longer = soft(X, LAMBDA)
    clf, explicit = (clone(learner).set_params(**settings_for(offset)) for _ in range(2))
    clf.set_params(soft_margin=LAMBDA)
    for start in range(0, len(X), 7):
        part = slice(start, start + 7)
        clf.partial_fit(X[part], y[part], classes=range(4))
        explicit.partial_fit(longer[part], y[part], classes=range(4))
        close(weights(clf, offset), np.delete(weights(explicit, offset), np.r_[4:44], axis=1), 1e-8)
        assert clf.n_updates_ == explicit.n_updates_
        assert clf.certificate_.bound == pytest.approx(explicit.certificate_.bound, rel=1e-8)
    assert state_of(clf).model.linear.weights.shape == (4, X.shape[1] + 1)


def test_fit_and_then_a_stream_is_one_run():
    X, y = four_classes()
    learner = in_order(ROMMA(delta=0.2, multiclass="1-best"), 1.7, max_iter=1)
    explicit = clone(learner).fit(soft(X, LAMBDA)[:20], y[:20])
    clf = learner.set_params(soft_margin=LAMBDA).fit(X[:20], y[:20])
    clf.partial_fit(X[20:], y[20:])
    explicit.partial_fit(soft(X, LAMBDA)[20:], y[20:])
    close(clf.coef_, explicit.coef_[:, :4])
    assert scalars(clf).norm2[0] == pytest.approx(np.sum(weights(explicit, 1.7) ** 2), rel=1e-9)
    assert clf.certificate_.bound == pytest.approx(explicit.certificate_.bound, rel=1e-8)


@settings(max_examples=10, deadline=None)
@given(problem=separable_problems)
def test_romma_proves_what_it_reaches(problem):
    X, y, _ = problem
    for kernel in ("linear", "poly"):
        learner = ROMMA(delta=0.05, multiclass="1-best", kernel=kernel, degree=1, gamma=1.0)
        assert converged(learner, X, y).certificate_.ratio >= 0.94


# ------------------------------------------------------------------------------- going on, and on


@every_learner
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_warm_start_goes_on(learner, kernel):
    X, y = four_classes()
    clf = in_order(learner, 1.7, kernel=kernel, gamma=GAMMA)
    whole = clone(clf).set_params(max_iter=2).fit(X, y)
    parts = clone(clf).set_params(max_iter=1, warm_start=True).fit(X, y).fit(X, y)
    close(parts.decision_function(X), whole.decision_function(X), 1e-10)
    assert parts.n_updates_ == whole.n_updates_
    assert parts.n_mistakes_ == whole.n_mistakes_


@pytest.mark.parametrize("learner", [AMIRA(), ROMMA(delta=0.2, multiclass="1-best")], ids=label)
def test_warm_start_has_nothing_to_add_after_convergence(learner):
    X, y = three_classes(n=30)
    clf = clone(learner).set_params(warm_start=True, random_state=0).fit(X, y)
    before, updates = clf.coef_, clf.n_updates_
    assert clf.converged_
    clf.fit(X, y)
    np.testing.assert_array_equal(clf.coef_, before)
    assert clf.n_updates_ == updates


@every_learner
@with_and_without_intercept
def test_warm_start_on_other_rows_proves_nothing_from_old_ones(learner, offset):
    X, y = three_classes(n=30)
    clf = clone(learner).set_params(warm_start=True, random_state=0, **settings_for(offset))
    clf.fit(X, y).fit(50.0 * X, y)
    assert clf.certificate_.bound >= 50.0 * reference.max_joint_margin(X, y, 3)[0]
    assert clf.certificate_.ratio <= 1.0


def test_one_more_pass_over_other_rows_proves_nothing_from_old_ones():
    X, y = three_classes(n=30)
    clf = AMIRA(warm_start=True, fit_intercept=False, random_state=0).fit(X, y)
    clf.set_params(max_iter=1).fit(50.0 * X, y)
    assert clf.certificate_.bound >= 50.0 * reference.max_joint_margin(X, y, 3)[0]


@pytest.mark.parametrize("learner", [AMIRA(), PassiveAggressive(multiclass="1-best")], ids=label)
def test_warm_start_with_other_labels_proves_nothing_from_old_ones(learner):
    clf = clone(learner).set_params(
        kernel="rbf", gamma=GAMMA, fit_intercept=False, warm_start=True, random_state=0
    )
    for seed in range(20):
        X, y = four_classes(n=8, seed=seed)
        relabelled = np.append(y[:-1], (y[-1] + 1) % 4)
        factor = np.linalg.cholesky(rbf(X, X, GAMMA))
        best, _ = reference.max_joint_margin(factor, relabelled, 4)
        fitted = clone(clf).fit(X, y).fit(X, relabelled)
        assert fitted.certificate_.bound >= best


def shrinking_rows():
    """Rows on which ROMMA goes on shrinking its weights for many updates."""
    X, y, _ = _separable_jointly(n=60, classes=4, further=1, gap=0.05, seed=0)
    return X, y


@pytest.mark.parametrize("form", FORMS)
def test_many_shrinking_updates_stay_exact(form):
    X, y = shrinking_rows()
    passes = 8
    clf = in_order(ROMMA(delta=0.01, multiclass="1-best"), max_iter=passes)
    clf.fit(FORMS[form](X), y)
    trace = reference.learned(
        "romma_1best", np.tile(X, (passes, 1)), np.tile(y, passes), 4, delta=0.01
    )
    assert clf.n_updates_ == trace.updated.sum() > 200
    close(clf.coef_, trace.W)
    kept = scalars(clf)[0]
    assert kept.norm2 == pytest.approx(np.sum(trace.W**2), rel=1e-9)
    assert kept.scale * kept.positive == pytest.approx(trace.mass[-1], rel=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_folding_the_scale_changes_nothing(monkeypatch, kernel):
    """With limits so narrow that the scale is folded into the weights again and again."""
    X, y = four_classes()
    learner = ROMMA(delta=0.2, multiclass="1-best", kernel=kernel, gamma=GAMMA)
    clf = in_order(learner, 1.7, soft_margin=LAMBDA, max_iter=2)
    expected = clone(clf).fit(X, y)
    expected_stream = clone(clf).partial_fit(X, y, classes=range(4))
    folded = []
    run_plainly(monkeypatch, lambda space: folded.append(maintain.plain(space)))
    for module in ("euclid", "gram"):
        monkeypatch.setattr(f"maxmargin.spaces.{module}.LARGEST_SCALE", 1.03)
    for mine, other in (
        (clone(clf).fit(X, y), expected),
        (clone(clf).partial_fit(X, y, classes=range(4)), expected_stream),
    ):
        close(mine.decision_function(X), other.decision_function(X), 1e-10)
        assert mine.n_updates_ == other.n_updates_
        assert mine.certificate_.margin == pytest.approx(
            other.certificate_.margin, rel=1e-8, nan_ok=True
        )
        assert mine.certificate_.bound == pytest.approx(other.certificate_.bound, rel=1e-8)
    assert len(folded) > 10


# -------------------------------------------------------------------------------- bad parameters


@pytest.mark.parametrize("Learner", [PassiveAggressive, Perceptron, ROMMA])
def test_k_best_is_for_amira_only(Learner):
    X, y = three_classes(n=12)
    with pytest.raises(ValueError, match=f"'multiclass' parameter of {Learner.__name__}"):
        Learner(multiclass="k-best").fit(X, y)


def test_joint_classes_know_one_norm_only():
    X, y = three_classes(n=12)
    with pytest.raises(ValueError, match=r"'(p|multiclass)' parameter"):
        Perceptron(p=4.0, multiclass="1-best").fit(X, y)


@pytest.mark.parametrize(
    "change", [{"multiclass": "1-best"}, {"multiclass": "ovr"}, {"k": 1}], ids=str
)
def test_a_fitted_model_keeps_its_kind(change):
    X, y = three_classes(n=30)
    clf = AMIRA(random_state=0).fit(X, y)
    (name,) = change
    with pytest.raises(ValueError, match=f"'{name}' parameter of AMIRA cannot change"):
        clf.set_params(**change).partial_fit(X, y)


def test_more_rivals_than_there_are_changes_nothing():
    X, y = three_classes(n=30)
    every, some = (AMIRA(k=k, random_state=0).fit(X, y) for k in (None, 99))
    np.testing.assert_array_equal(some.coef_, every.coef_)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_snapshots_lift_the_certificate(kernel):
    """Early coefficients never shrink, and without snapshots they spoil the bound."""
    random = np.random.default_rng(3)
    X = random.normal(size=(150, 3))
    y = np.argmax(X @ random.normal(size=(3, 3)), axis=1)
    outputs = np.sort(X @ np.eye(3), axis=1)
    clear = outputs[:, 2] - outputs[:, 1] > 0.05
    X, y = X[clear], np.argmax(X[clear], axis=1)
    clf = AMIRA(epsilon=0.05, kernel=kernel, gamma=0.2, fit_intercept=False)
    clf.set_params(max_iter=5000, random_state=0).fit(X, y)
    model = state_of(clf).model
    lifted = model.bounds()[0]
    if kernel == "linear":
        model.linear.witness.mark[:] = 0.0
        model.linear.scalars.table.mark_positive = 0.0
        plain = model.bounds()[0]
    else:
        model.supports.marks[:] = 0.0
        model._bounds = None
        plain = model.bounds()[0]
    assert lifted < 0.95 * plain
    assert lifted >= clf.certificate_.margin
