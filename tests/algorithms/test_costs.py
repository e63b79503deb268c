"""Margins that differ by pair of classes: the smallest step, its theorems and its certificates."""

import pickle
from functools import partial
from itertools import product

import numpy as np
import pytest
import reference_multiclass as reference
from algorithms.agreement import Stream
from algorithms.theory import ROUNDING
from extent import everything_or
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import chunk_sizes, label, separable, three_classes
from reference_kernel import rbf
from reference_pnorm import soft
from scipy import sparse
from sklearn.base import clone

from maxmargin import AMIRA, load, save, streams
from maxmargin.core.joint_loop import learn_jointly
from maxmargin.core.loop import maintain
from maxmargin.models import joint_model, kernel_fit
from maxmargin.models.joint_model import JointModel
from maxmargin.models.kernel_model import JointKernelModel
from maxmargin.persistence import describe
from maxmargin.training.protocol import state_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LAMBDA, GAMMA = 0.3, 0.5
WAYS = [{}, {"k": 2}, {"multiclass": "1-best"}]
every_way = pytest.mark.parametrize("way", WAYS, ids=str)
with_and_without_intercept = pytest.mark.parametrize("offset", [0.0, 1.7])


def some_costs(classes, spread=5.0, seed=0):
    """Costs of which none is more than ``spread`` squared times another."""
    random = np.random.default_rng(seed)
    return spread ** random.uniform(-1.0, 1.0, size=(classes, classes))


def follow(way, *rows, **more):
    """The reference of that way."""
    given = {name: value for name, value in way.items() if name == "k"}
    name = "amira_1best" if way.get("multiclass") == "1-best" else "amira_kbest"
    return getattr(reference, name)(*rows, **given, **more)


def with_offset(X, offset):
    return np.column_stack([X, np.full(len(X), offset)]) if offset > 0.0 else X


def settings_for(offset):
    return {"fit_intercept": offset > 0.0, "intercept_scaling": offset or 1.0}


def weights(clf, offset):
    return np.column_stack([clf.coef_, clf.intercept_ / offset]) if offset > 0.0 else clf.coef_


def close(actual, expected, tolerance=1e-9):
    atol = tolerance * np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def four_classes(n=40, d=4, noise=0.5, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    y = np.argmax(X @ random.normal(size=(d, 4)) + noise * random.normal(size=(n, 4)), axis=1)
    y[:4] = np.arange(4)
    return X, y


# --------------------------------------------------------------------------------- the references


def _stream(rows, width, classes, offset, seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, width))
    y = random.integers(classes, size=rows)
    y[:classes] = np.arange(classes)
    return Stream(X, y, classes, offset)


some_streams = st.builds(
    _stream,
    rows=st.integers(6, 20),
    width=st.integers(2, 8),
    classes=st.integers(3, 6),
    offset=st.sampled_from([0.0, 0.83]),
    seed=st.integers(0, 2**32 - 1),
)
spreads = st.sampled_from([1.2, 5.0, 100.0])
seeds = st.integers(0, 2**32 - 1)


@every_way
@settings(max_examples=25, deadline=None)
@given(stream=some_streams, epsilon=st.sampled_from([0.1, 0.6, 1.0]), spread=spreads, seed=seeds)
def test_follows_the_reference_row_by_row(way, stream, epsilon, spread, seed):
    X, y, classes, offset = stream
    costs = some_costs(classes, spread, seed)
    trace = follow(way, with_offset(X, offset), y, classes, epsilon=epsilon, costs=costs)
    updates, mistakes = np.cumsum(trace.updated), np.cumsum(trace.mistakes)
    clf = AMIRA(epsilon=epsilon, costs=costs, shuffle=False, **way, **settings_for(offset))
    for i in range(len(X)):
        clf.partial_fit(X[i : i + 1], y[i : i + 1], classes=range(classes))
        close(weights(clf, offset), trace.history[i])
        assert (clf.n_updates_, clf.n_mistakes_) == (updates[i], mistakes[i])
    clf.set_params(max_iter=1).fit(sparse.csr_matrix(X), y)
    close(weights(clf, offset), trace.W)
    assert (clf.n_updates_, clf.n_mistakes_) == (updates[-1], mistakes[-1])


@every_way
@with_and_without_intercept
def test_follows_the_reference_in_a_kernels_space_with_a_soft_margin(way, offset):
    X, y = four_classes()
    costs, passes = some_costs(4), 3
    K = rbf(X, X, GAMMA) + LAMBDA * np.eye(len(X))
    order = np.tile(np.arange(len(X)), passes)
    given = {name: value for name, value in way.items() if name == "k"}
    name = "amira_1best" if way.get("multiclass") == "1-best" else "amira_kbest"
    run = getattr(reference, f"kernel_{name}")
    trace = run(K + offset**2, y, order, 4, epsilon=0.3, costs=costs, **given)
    clf = AMIRA(epsilon=0.3, costs=costs, kernel="rbf", gamma=GAMMA, soft_margin=LAMBDA, **way)
    clf.set_params(shuffle=False, max_iter=passes, **settings_for(offset)).fit(X, y)
    A = np.zeros((len(X), 4))
    A[clf.support_] = clf.dual_coef_.T
    close(A, trace.coefficients, 1e-8)
    assert clf.n_updates_ == trace.updated.sum()
    if offset == 0.0:
        bound = reference.joint_bound(K, y, trace.multipliers, costs)
        # There are later snapshots, too, which may give a smaller one.
        assert clf.certificate_.bound <= bound * (1 + 1e-7)
        margin = reference.joint_margin(
            A.T @ np.linalg.cholesky(K), np.linalg.cholesky(K), y, costs
        )
        assert clf.certificate_.margin == pytest.approx(margin, rel=1e-7)


@every_way
@with_and_without_intercept
def test_soft_margin_is_a_private_coordinate(way, offset):
    X, y = four_classes()
    costs, longer = some_costs(4), with_offset(soft(X, LAMBDA), offset)
    clf = AMIRA(epsilon=0.3, costs=costs, soft_margin=LAMBDA, shuffle=False, max_iter=3, **way)
    clf.set_params(**settings_for(offset)).fit(X, y)
    trace = follow(way, np.tile(longer, (3, 1)), np.tile(y, 3), 4, epsilon=0.3, costs=costs)
    own = np.r_[:4, longer.shape[1] - 1 : longer.shape[1]] if offset else slice(4)
    close(weights(clf, offset), trace.W[:, own])
    scalars = state_of(clf).model.linear.scalars.table[0]
    assert scalars.norm2 == pytest.approx(np.sum(trace.W**2), rel=1e-9)
    assert scalars.scale * scalars.positive == pytest.approx(trace.mass[-1], rel=1e-9)
    in_costs = np.sum(trace.multipliers * costs[np.tile(y, 3)])
    assert scalars.scale * scalars.negative == pytest.approx(in_costs, rel=1e-9)
    free = trace.W if offset == 0.0 else trace.W[:, :-1]
    margin = reference.joint_margin(trace.W, longer, y, costs)
    margin *= np.linalg.norm(trace.W) / np.linalg.norm(free)
    assert clf.certificate_.margin == pytest.approx(margin, rel=1e-8)


@pytest.mark.compiled
@every_way
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_compiled_code_has_the_bits_of_its_meaning(way, kernel, monkeypatch):
    X, y = four_classes(n=20)
    clf = AMIRA(epsilon=0.3, costs=some_costs(4), kernel=kernel, gamma=GAMMA, **way)
    clf.set_params(max_iter=2, random_state=0)
    compiled = clone(clf).fit(X, y)
    for kind in (JointModel, JointKernelModel):
        monkeypatch.setattr(kind, "loop", staticmethod(learn_jointly.plain))
    monkeypatch.setattr(joint_model, "maintain", maintain.plain)
    present = partial(kernel_fit.present, maintain=maintain.plain)
    monkeypatch.setattr(kernel_fit, "present", present)
    plain = clone(clf).fit(X, y)
    np.testing.assert_array_equal(compiled.decision_function(X), plain.decision_function(X))
    assert compiled.certificate_ == plain.certificate_


# --------------------------------------------------------------------------------- single trials


@settings(max_examples=60, deadline=None)
@given(stream=some_streams, epsilon=st.floats(0.01, 1.0), spread=spreads, seed=seeds)
def test_a_step_is_the_smallest_one(stream, epsilon, spread, seed):
    """Against the quadratic programme, over the rivals that come too close."""
    X, y, classes, offset = stream
    costs, k = some_costs(classes, spread, seed), 1 + seed % classes
    clf = AMIRA(epsilon=epsilon, costs=costs, k=k, **settings_for(offset))
    clf.partial_fit(X[:1], y[:1], classes=range(classes))
    for x, own in zip(with_offset(X, offset), y, strict=True):
        before, updates = weights(clf, offset), clf.n_updates_
        leads = (before @ x)[own] - before @ x
        gaps = costs[own] - leads
        close_ones = (leads <= (1.0 - epsilon) * costs[own]) & (np.arange(classes) != own)
        chosen = np.flatnonzero(close_ones)
        chosen = chosen[np.argsort(-gaps[chosen], kind="stable")][:k]
        expected = before.copy()
        if chosen.size:
            gram = x @ x * (np.eye(chosen.size) + 1.0)
            steps = reference.project_by_qp(gram, gaps[chosen])
            expected[own] += steps.sum() * x
            expected[chosen] -= steps[:, None] * x
        clf.partial_fit(x[None, : X.shape[1]], [own])
        assert clf.n_updates_ - updates == (chosen.size > 0)
        close(weights(clf, offset), expected, 1e-8)


@every_way
def test_equal_costs_are_a_unit_of_length(way):
    X, y = four_classes()
    clf = AMIRA(epsilon=0.3, max_iter=5, random_state=0, **way)
    plain = clone(clf).fit(X, y)
    for unit in (1.0, 4.0, 2.0**-60):  # exact
        costs = np.full((4, 4), unit)
        np.fill_diagonal(costs, np.nan)  # which means nothing
        scaled = clone(clf).set_params(costs=costs).fit(X, y)
        np.testing.assert_array_equal(scaled.coef_, unit * plain.coef_)
        assert scaled.n_updates_ == plain.n_updates_
        assert scaled.certificate_.margin == plain.certificate_.margin / unit
        assert scaled.certificate_.bound == pytest.approx(plain.certificate_.bound / unit, rel=1e-9)


def test_what_is_costly_happens_less_often():
    """Classes that overlap; to take the last for another one is twenty times as bad."""
    X, y = four_classes(n=4000, noise=1.5)
    costs = np.ones((4, 4))
    costs[3] = 20.0
    for way in WAYS:
        clf = AMIRA(epsilon=0.5, soft_margin=1.0, max_iter=3, random_state=0, **way)
        paid, missed = [], []
        for each in (None, costs):
            predicted = clone(clf).set_params(costs=each).fit(X[:2000], y[:2000]).predict(X[2000:])
            wrong = predicted != y[2000:]
            paid.append(np.sum(costs[y[2000:], predicted] * wrong))
            missed.append(np.sum(wrong & (y[2000:] == 3)))
        assert missed[1] < 0.5 * missed[0]
        assert paid[1] < 0.7 * paid[0]


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
    seed=seeds,
)


def of_rivals(costs):
    return costs[~np.eye(len(costs), dtype=bool)]


@every_way
@settings(max_examples=15, deadline=None)
@given(problem=separable_problems, epsilon=st.floats(0.1, 1.0), seed=seeds)
def test_the_theorems_hold_in_units_of_costs(way, problem, epsilon, seed):
    X, y, classes = problem
    costs = some_costs(classes, 3.0, seed)
    best, _ = reference.max_joint_margin(X, y, classes, costs)
    radius = np.sqrt(2.0) * np.linalg.norm(X, axis=1).max() / of_rivals(costs).min()
    clf = AMIRA(epsilon=epsilon, costs=costs, fit_intercept=False, random_state=0, **way)
    clf.set_params(max_iter=100_000).fit(X, y)
    assert clf.converged_
    assert clf.n_updates_ <= AMIRA.max_updates(epsilon, radius, best)
    assert np.linalg.norm(clf.coef_) <= AMIRA.max_norm(epsilon, best) * (1 + ROUNDING)
    reached = reference.joint_margin(clf.coef_, X, y, costs)
    assert reached >= AMIRA.margin_fraction(epsilon) * best * (1 - ROUNDING)
    # The plain margin, and what it says about the number of updates.
    ratio = of_rivals(costs).max() / of_rivals(costs).min()
    plain, _ = reference.max_joint_margin(X, y, classes)
    radius = np.sqrt(2.0) * np.linalg.norm(X, axis=1).max()
    assert clf.n_updates_ <= AMIRA.max_updates(epsilon, ratio * radius, plain)
    reached = reference.joint_margin(clf.coef_, X, y)
    assert reached >= AMIRA.margin_fraction(epsilon) * plain / ratio * (1 - ROUNDING)


# ---------------------------------------------------------------------------------- certificates


def free_joint_margin(X, y, classes, costs):
    """Nearly the largest margin with free intercepts, and surely no more than that.

    The intercepts are weights of a coordinate that is so large that they cost next to nothing.
    """
    large = 300.0 * np.linalg.norm(X, axis=1).max()
    longer = with_offset(X, large)
    _, W = reference.max_joint_margin(longer, y, classes, costs)
    margin = reference.joint_margin(W, longer, y, costs)
    return margin * np.linalg.norm(W) / np.linalg.norm(W[:, :-1])


@every_way
@settings(max_examples=15, deadline=None)
@given(problem=separable_problems, passes=st.sampled_from([1, 30]), spread=spreads, seed=seeds)
def test_no_margin_exceeds_the_bound(way, problem, passes, spread, seed):
    X, y, classes = problem
    costs = some_costs(classes, spread, seed)
    clf = AMIRA(costs=costs, max_iter=passes, fit_intercept=False, random_state=0, **way)
    best, _ = reference.max_joint_margin(X, y, classes, costs)
    for kernel in ("linear", "poly"):
        certificate = clf.set_params(kernel=kernel, degree=1, gamma=1.0).fit(X, y).certificate_
        assert certificate.bound >= best * (1 - 1e-9)
        assert certificate.margin <= best * (1 + ROUNDING)
        if kernel == "linear":
            margin = reference.joint_margin(clf.coef_, X, y, costs)
            assert certificate.margin == pytest.approx(margin, rel=1e-9)


@every_way
@settings(max_examples=10, deadline=None)
@given(problem=separable_problems, shift=st.floats(0, 3), spread=spreads, seed=seeds)
def test_no_margin_with_free_intercepts_exceeds_the_bound(way, problem, shift, spread, seed):
    X, y, classes = problem
    X, costs = X + shift, some_costs(classes, spread, seed)
    best = free_joint_margin(X, y, classes, costs)
    for kernel in ("linear", "poly"):
        clf = AMIRA(costs=costs, kernel=kernel, degree=1, gamma=1.0, max_iter=30, random_state=0)
        certificate = clf.set_params(**way).fit(X, y).certificate_
        assert best * (1 - 1e-9) <= certificate.bound < np.inf
        assert certificate.margin <= best * (1 + 1e-4)


@every_way
@settings(max_examples=10, deadline=None)
@given(spread=spreads, seed=seeds)
def test_bounds_of_streams_hold_while_classes_have_no_rows(way, spread, seed):
    """A class without rows may stay far behind, if it costs much to be taken for it."""
    X, y, classes = _separable_jointly(n=16, classes=4, further=1, gap=0.5, seed=seed % 1000)
    X, y = X[np.argsort(y, kind="stable")], np.sort(y)
    costs = some_costs(classes, spread, seed)
    for offset in (0.0, 1.7):
        clf = AMIRA(costs=costs, **way, **settings_for(offset))
        for i in range(len(X)):
            clf.partial_fit(X[i : i + 1], y[i : i + 1], classes=range(classes))
            seen = X[: i + 1], y[: i + 1]
            if offset == 0.0:
                best, _ = reference.max_joint_margin(*seen, classes, costs)
                assert clf.certificate_.bound >= best * (1 - 1e-9)
            elif y[i] == 0:
                assert clf.certificate_.bound == np.inf  # an intercept alone separates
            else:
                some = slice(y[i] + 1)
                best = free_joint_margin(*seen, y[i] + 1, costs[some, some])
                assert clf.certificate_.bound >= best * (1 - 1e-9)


def test_the_bound_comes_close():
    X, y, _ = _separable_jointly(n=60, classes=4, further=0, gap=0.5, seed=0)
    costs = some_costs(4, 3.0)
    clf = AMIRA(epsilon=0.02, costs=costs, fit_intercept=False, random_state=0).fit(X, y)
    assert clf.certificate_.ratio > 0.7
    best, _ = reference.max_joint_margin(X, y, 4, costs)
    assert clf.certificate_.margin > 0.9 * best


# ------------------------------------------------------------------------------- going on, and on


@pytest.mark.parametrize(
    ("kernel", "way"),
    [*product(["linear"], WAYS), *product(["rbf"], everything_or(WAYS[:1], WAYS))],
    ids=str,
)
def test_any_way_of_learning_is_the_same(way, kernel, tmp_path):
    X, y = four_classes()
    clf = AMIRA(costs=some_costs(4), kernel=kernel, gamma=GAMMA, shuffle=False, max_iter=1, **way)
    expected = clone(clf).fit(X, y)
    exactly = kernel == "linear"

    def check(other):
        if exactly:
            np.testing.assert_array_equal(other.coef_, expected.coef_)
            assert other.certificate_.bound == expected.certificate_.bound
        close(other.decision_function(X), expected.decision_function(X), 1e-8)
        assert other.n_updates_ == expected.n_updates_

    @settings(max_examples=5, deadline=None)
    @given(sizes=chunk_sizes(len(X)))
    def in_chunks(sizes):
        other, start = clone(clf), 0
        for size in sizes:
            part = slice(start, start + size)
            other.partial_fit(X[part], y[part], classes=range(4))
            start += size
        check(other)

    in_chunks()
    one_by_one = clone(clf)
    for x, own in zip(X, y, strict=True):
        one_by_one.learn_one(x, own, classes=range(4))
    check(one_by_one)
    check(clone(clf).fit_stream(streams.open(X, y, block_size=1000), classes=range(4)))
    half = clone(clf).partial_fit(X[:20], y[:20], classes=range(4))
    save(half, tmp_path / "model.mm")
    for again in (load(tmp_path / "model.mm"), pickle.loads(pickle.dumps(half))):
        np.testing.assert_array_equal(again.costs, clf.costs)
        check(again.partial_fit(X[20:], y[20:]))


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, lambda costs: costs[::-1][::-1]])
def test_costs_of_any_form_are_kept_in_files(form, tmp_path):
    X, y = four_classes()
    clf = AMIRA(costs=form(some_costs(4)), random_state=0, max_iter=2).fit(X, y)
    save(clf, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    np.testing.assert_array_equal(again.costs, clf.costs)
    np.testing.assert_array_equal(again.fit(X, y).coef_, clf.coef_)
    assert describe(tmp_path / "model.mm")["parameters"]["costs"] == type(clf.costs).__name__


# -------------------------------------------------------------------------------- bad parameters

THREE = np.ones((3, 3))
BAD = {
    "not square": np.ones((3, 2)),
    "one line": np.ones(3),
    "too deep": np.ones((3, 3, 3)),
    "ragged": [[1, 2], [3]],
    "0": THREE - np.eye(3)[[1, 0, 2]],
    "negative": -THREE,
    "NaN": THREE + np.nan * np.eye(3)[[1, 0, 2]],
    "infinite": np.full((3, 3), np.inf),
    "too large": np.full((3, 3), 1e51),
    "too small": np.full((3, 3), 1e-51),
    "words": [["a"] * 3] * 3,
    "a number": 2.0,
    "a dict": {},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_bad_costs_are_named_and_change_nothing(bad):
    X, y = three_classes(n=30)
    clf = AMIRA(costs=THREE, random_state=0).fit(X, y)
    coef = clf.coef_
    clf.set_params(costs=bad)
    for learn in (clf.fit, clf.partial_fit, lambda X, y: clf.learn_one(X[0], y[0])):
        with pytest.raises(ValueError, match="'costs' parameter of AMIRA must be"):
            learn(X, y)
    np.testing.assert_array_equal(clf.coef_, coef)
    fresh = AMIRA(costs=bad)
    with pytest.raises(ValueError, match="'costs' parameter of AMIRA must be"):
        fresh.partial_fit(X, y, classes=range(3))
    assert not hasattr(fresh, "classes_")


@pytest.mark.parametrize("size", [2, 4])
def test_costs_for_another_number_of_classes(size):
    X, y = three_classes(n=30)
    clf = AMIRA(costs=np.ones((size, size)))
    for learn in (clf.fit, partial(clf.partial_fit, classes=range(3))):
        with pytest.raises(ValueError, match=f"'costs' .* for {size} classes, but there are 3"):
            learn(X, y)


@pytest.mark.parametrize(
    "other",
    [{"multiclass": "ovr"}, {"multiclass": "ovr", "budget": 5}, {"intercept": "pair"}],
    ids=str,
)
def test_costs_need_classes_that_are_learned_together(other):
    X, y = three_classes(n=30)
    with pytest.raises(ValueError, match="'costs' parameter is for three or more classes"):
        AMIRA(costs=THREE, **other).fit(X, y)


def test_two_classes_have_no_rivals():
    X, y = separable(n=30, d=3)
    with pytest.raises(ValueError, match="'costs' parameter is for three or more classes"):
        AMIRA(costs=np.ones((2, 2))).fit(X, y)


def test_costs_cannot_change_under_a_fitted_model():
    X, y = three_classes(n=30)
    costs = some_costs(3)
    clf = AMIRA(costs=costs, warm_start=True, random_state=0).fit(X, y)
    clf.set_params(costs=costs.tolist()).fit(X, y)  # the same
    for other in (2 * costs, None):
        clf.set_params(costs=other)
        for learn in (clf.fit, clf.partial_fit):
            with pytest.raises(ValueError, match="'costs' parameter of AMIRA cannot change"):
                learn(X, y)
    costs[0, 1] *= 2.0  # in the user's own array
    before = clf.set_params(costs=state_of(clf).model.spec.costs).fit(X, y).coef_
    np.testing.assert_array_equal(clf.partial_fit(X, y).coef_, before)


def test_clones_have_costs_of_their_own():
    costs = some_costs(3)
    clf = AMIRA(costs=costs)
    twin = clone(clf)
    np.testing.assert_array_equal(twin.costs, costs)
    assert twin.costs is not costs
    assert "costs" in label(clf)
