"""`AutoMargin`: against a naive mixture, its theorem, and units of columns that do not matter."""

import gc
import math
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_mixture import EXPERTS, mixture
from scipy import sparse
from scipy.special import expit

from maxmargin import AutoMargin
from maxmargin.evaluate import certify, progressive
from maxmargin.experts.expert_loop import learn_rows
from maxmargin.experts.full_matrix import FULL_MATRIX
from maxmargin.experts.mixture import new_mixture
from maxmargin.experts.scaled_columns import BY_COLUMN, ROOTED
from maxmargin.experts.standardized_columns import STANDARDIZED, STANDARDIZED_ROOTED
from maxmargin.training.protocol import state_of

# Their outputs do not depend on the units of columns.
UNITLESS = [FULL_MATRIX, BY_COLUMN, ROOTED, STANDARDIZED, STANDARDIZED_ROOTED]


def problem(rows=120, width=4, classes=2, seed=0, density=1.0):
    """Columns of other sizes, noise, and a target that moves."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, width)) * 10.0 ** random.integers(-3, 4, size=width)
    X *= random.uniform(size=X.shape) < density
    W = random.normal(size=(classes, width)) / np.abs(X).max(axis=0, initial=1e-9)
    codes = (X @ W.T + 0.3 * random.normal(size=(rows, classes))).argmax(axis=1)
    codes[rows // 2 :] = (codes[rows // 2 :] + 1) % classes
    return X, codes


def foretold(clf, X, codes, classes=2, sample_weight=None):
    """The log-odds of each row before it is learned from."""
    order = np.arange(len(codes), dtype=np.int32)
    names = np.arange(classes)
    return clf.score_then_learn(X, codes, order, classes=names, sample_weight=sample_weight)[0]


def log_losses(odds, codes):
    return np.logaddexp(0.0, np.where(codes == 1, -odds, odds))


@pytest.mark.parametrize("density", [1.0, 0.5])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_it_is_the_naive_mixture(density, fit_intercept):
    X, codes = problem(density=density)
    clf = AutoMargin(fit_intercept=fit_intercept)
    rows = X if density == 1.0 else sparse.csr_matrix(X)
    odds = foretold(clf, rows, codes)
    wanted, shares, _ = mixture(X, 2 * codes - 1, offset=float(fit_intercept))
    np.testing.assert_allclose(odds[:, 0], wanted, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(clf.weights_[0], shares, rtol=1e-7, atol=1e-10)


def test_columns_are_centered_while_most_of_their_values_are_not_0():
    random = np.random.default_rng(5)
    parts = np.array([[1.0, 0.0, 0.6, 1.0], [0.05, 1.0, 0.3, 1.0]]).repeat([30, 120], axis=0)
    X = random.normal(loc=100.0, size=parts.shape) * (random.uniform(size=parts.shape) < parts)
    X[:, 3] = 7.0  # does not vary
    codes = (X[:, 0] + X[:, 1] + 3.0 * random.normal(size=150) > 100.0).astype(int)
    wanted, _, _ = mixture(X, 2 * codes - 1)
    for rows in (X, sparse.csr_matrix(X)):
        clf = AutoMargin()
        odds = foretold(clf, rows, codes)
        np.testing.assert_allclose(odds[:, 0], wanted, rtol=1e-7, atol=1e-8)
        columns = state_of(clf).model.experts.standardized
        assert sorted(columns.listed[0, : columns.listed_count[0]]) == [1, 2, 3]
        features = state_of(clf).model.planes(4)[-1].features
        assert features.centers[0] == 0.0
        np.testing.assert_allclose(features.centers[1:], X[:, 1:].mean(axis=0), rtol=1e-12)
        spreads = 151 * X[:, 1:].var(axis=0)
        np.testing.assert_allclose(features.spreads[1:], spreads, rtol=1e-12, atol=1e-12)


def test_offsets_of_columns_do_not_matter_to_standardized_ones():
    X, codes = problem(rows=200, seed=6)
    X += np.abs(X).max(axis=0)
    ours, theirs = AutoMargin(), AutoMargin()
    foretold(ours, X, codes)
    offsets = 2.0 ** np.ceil(np.log2(np.abs(X).max(axis=0)))
    foretold(theirs, X + 1000.0 * offsets, codes)
    mine, others = outputs_of_experts(ours, X), outputs_of_experts(theirs, X + 1000.0 * offsets)
    kinds = state_of(ours).model.spec.mixture
    free = np.isin(kinds, [FULL_MATRIX, STANDARDIZED, STANDARDIZED_ROOTED])
    np.testing.assert_allclose(mine[..., free], others[..., free], rtol=1e-6, atol=1e-8)
    assert not np.allclose(mine[..., ~free], others[..., ~free], rtol=0.1)


def test_rows_have_weights():
    X, codes = problem(seed=1)
    weight = np.random.default_rng(1).choice([0.25, 1.0, 2.0, 3.5], size=codes.size)
    clf = AutoMargin()
    odds = foretold(clf, X, codes, sample_weight=weight)
    wanted, shares, _ = mixture(X, 2 * codes - 1, weight)
    np.testing.assert_allclose(odds[:, 0], wanted, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(clf.weights_[0], shares, rtol=1e-7, atol=1e-10)


def test_several_classes_are_one_mixture_each():
    X, codes = problem(classes=3, seed=2)
    clf = AutoMargin()
    odds = foretold(clf, X, codes, classes=3)
    for c in range(3):
        wanted, shares, _ = mixture(X, np.where(codes == c, 1, -1))
        np.testing.assert_allclose(odds[:, c], wanted, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(clf.weights_[c], shares, rtol=1e-7, atol=1e-10)
    chances = expit(clf.decision_function(X))
    wanted = chances / chances.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.predict_proba(X), wanted, rtol=1e-12)
    assert (clf.predict(X) == chances.argmax(axis=1)).all()


def test_probabilities_are_the_mixture():
    X, codes = problem(seed=3)
    clf = AutoMargin().partial_fit(X, codes, classes=[0, 1])
    odds = clf.decision_function(X)
    np.testing.assert_allclose(clf.predict_proba(X)[:, 1], expit(odds), rtol=1e-14)
    assert (clf.predict(X) == (odds >= 0.0)).all()
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), clf.predict_proba(X), rtol=1e-12)


@pytest.mark.compiled
def test_compiled_and_plain_loops_agree_to_the_bit(monkeypatch):
    X, codes = problem(rows=40, classes=3, seed=4, density=0.7)
    compiled = AutoMargin().partial_fit(X, codes, classes=[0, 1, 2])
    monkeypatch.setattr("maxmargin.models.expert_model.run_loop", _plainly)
    plain = AutoMargin().partial_fit(X, codes, classes=[0, 1, 2])
    for name in ("full", "columns", "standardized", "mixture"):
        ours = getattr(state_of(compiled).model.experts, name)
        theirs = getattr(state_of(plain).model.experts, name)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


def _plainly(rows, targets, order, table, experts, tally, trace, **_):
    learn_rows.plain(rows, targets, order, 0, table, experts, tally, trace)


def outputs_of_experts(clf, X):
    """By the formulas that are exported; axes: row, problem, expert."""
    full, direct, scaled = state_of(clf).model.planes(X.shape[1])
    differences = X - scaled.features.centers
    squares = np.maximum(scaled.features.spreads + differences**2, 1e-300)
    z = differences * np.sqrt(scaled.features.counts / squares)
    outputs = [
        np.einsum("nj,cej->nce", each, group.weights) + group.intercepts
        for each, group in ((X, direct), (z, scaled))
    ]
    return np.concatenate([moderated(full, z)[..., None], *outputs], axis=2)


def moderated(full, z):
    """The output of the expert with a full matrix; axes: row, problem."""
    z = np.clip(z, -10.0, 10.0)
    variances = np.einsum("nj,cjk,nk->nc", z, full.variances, z)
    variances += 2.0 * z @ full.crosses.T + full.constants
    return (z @ full.weights.T + full.intercepts) / np.sqrt(1.0 + np.pi / 8.0 * variances)


@given(seed=st.integers(0, 1000), powers=st.lists(st.integers(-20, 20), min_size=4, max_size=4))
@settings(max_examples=20)
def test_units_of_columns_do_not_matter(seed, powers):
    X, codes = problem(rows=60, seed=seed)
    units = 2.0 ** np.array(powers)  # exact, so that nothing is rounded otherwise
    ours = AutoMargin().partial_fit(X, codes, classes=[0, 1])
    theirs = AutoMargin().partial_fit(X * units, codes, classes=[0, 1])
    mine, others = outputs_of_experts(ours, X), outputs_of_experts(theirs, X * units)
    free = np.isin(state_of(ours).model.spec.mixture, UNITLESS)
    assert free.sum() == 14
    np.testing.assert_allclose(mine[..., free], others[..., free], rtol=1e-9, atol=1e-12)


def test_powers_of_ten_change_few_predictions():
    """Rounding does: of experts by columns 0.1 % of rows, of the mixture 0.3 points of accuracy."""
    random = np.random.default_rng(4)
    X = random.normal(size=(3000, 6))
    codes = (X @ random.normal(size=6) + 0.5 * random.normal(size=3000) > 0.0).astype(int)
    units = 10.0 ** np.array([-6, 6, -3, 4, 0, 5])
    plain, scaled = AutoMargin(), AutoMargin()
    ours, theirs = foretold(plain, X, codes)[:, 0], foretold(scaled, X * units, codes)[:, 0]
    mine, others = outputs_of_experts(plain, X), outputs_of_experts(scaled, X * units)
    free = np.isin(state_of(plain).model.spec.mixture, UNITLESS)
    same = (mine[..., free] > 0.0) == (others[..., free] > 0.0)
    assert same.mean(axis=(0, 1)).min() >= 0.999
    assert not np.allclose(mine[..., ~free], others[..., ~free])
    accuracies = [((odds >= 0.0) == codes).mean() for odds in (ours, theirs)]
    assert abs(accuracies[0] - accuracies[1]) <= 0.003


def least_loss(losses, switches):
    """The smallest total loss of a sequence of experts that changes so many times at most."""
    best = [losses[0].copy() for _ in range(switches + 1)]
    for loss in losses[1:]:
        later = [best[0] + loss]
        for k in range(1, switches + 1):
            later.append(np.minimum(best[k], best[k - 1].min()) + loss)
        best = later
    return float(best[switches].min())


@given(seed=st.integers(0, 10_000), rows=st.integers(2, 60), switches=st.integers(0, 3))
@settings(max_examples=30)
def test_log_loss_is_bounded(seed, rows, switches):
    X, codes = problem(rows=rows, seed=seed)
    odds = foretold(AutoMargin(), X, codes)[:, 0]
    losses = mixture(X, 2 * codes - 1)[2]
    switches = min(switches, rows - 1)
    best = least_loss(losses, switches)
    bound = AutoMargin.max_log_loss(best, switches, len(EXPERTS), rows)
    assert log_losses(odds, codes).sum() <= bound + 1e-6


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15)
def test_weighted_log_loss_is_bounded(seed):
    """With weights up to 1 that of the weighted losses is."""
    X, codes = problem(rows=40, seed=seed)
    weight = np.random.default_rng(seed).uniform(0.05, 1.0, size=codes.size)
    odds = foretold(AutoMargin(), X, codes, sample_weight=weight)[:, 0]
    losses = weight[:, None] * mixture(X, 2 * codes - 1, weight)[2]
    bound = AutoMargin.max_log_loss(float(losses.sum(axis=0).min()), 0, len(EXPERTS), codes.size)
    assert weight @ log_losses(odds, codes) <= bound + 1e-6


@pytest.mark.parametrize("size", [500.0, 1e6, 1e12])
def test_large_weights_of_rows_leave_the_most_likely_experts(size):
    """The mixture in logarithms, which no weight makes too small."""
    random = np.random.default_rng(0)
    for _ in range(20):
        mixed, experts = new_mixture(1, 5), 5
        chances = random.uniform(0.01, 0.4, experts)
        before = random.dirichlet(np.ones(experts))
        mixed.weights[0] = before
        mixed.learn_outcome(0, 1.0, np.zeros(experts), chances, size, 9.0, 0, experts)
        odds = np.log(before) + size * np.log(chances)
        expected = np.exp(odds - np.logaddexp.reduce(odds))
        np.testing.assert_allclose(mixed.weights[0], 0.9 * expected + 0.1 / experts, rtol=1e-6)


def test_the_bound_is_the_formula():

    assert AutoMargin.max_log_loss(1.0, 0, 16, 100) == pytest.approx(1.0 + math.log(1600))
    assert AutoMargin.max_log_loss(1.0, 2, 16, 100) == pytest.approx(1.0 + 3.0 * math.log(1600))
    with pytest.raises(ValueError, match="switches"):
        AutoMargin.max_log_loss(1.0, 1, 1, 100)


def test_one_pass_over_rows_of_any_size_gives_the_same_bits():
    X, codes = problem(rows=90, classes=4, seed=5, density=0.6)
    whole = AutoMargin(shuffle=False).fit(X, codes)
    parts = AutoMargin()
    for start, stop in ((0, 1), (1, 8), (8, 50), (50, 90)):
        parts.partial_fit(X[start:stop], codes[start:stop], classes=range(4))
    by_rows = AutoMargin()
    for x, code in zip(X, codes.tolist(), strict=True):
        by_rows.learn_one(x, code, classes=range(4))
    for other in (parts, by_rows):
        np.testing.assert_array_equal(whole.decision_function(X), other.decision_function(X))
        np.testing.assert_array_equal(whole.weights_, other.weights_)


def test_single_rows_are_predicted_as_many():
    X, codes = problem(rows=50, classes=3, seed=6)
    clf = AutoMargin()
    for x, code in zip(X, codes.tolist(), strict=True):
        clf.learn_one(dict(enumerate(x)), code, grow=True)
    rows = [dict(enumerate(x)) for x in X]
    columns = [clf.columns_[j] for j in range(X.shape[1])]
    Z = np.empty_like(X)
    Z[:, columns] = X
    assert [clf.predict_one(row) for row in rows] == clf.predict(Z).tolist()
    chances = [list(clf.predict_proba_one(row).values()) for row in rows]
    np.testing.assert_allclose(chances, clf.predict_proba(Z), rtol=1e-12)


def in_runs(rows=4000, stay=0.9, seed=0):
    """Labels that mostly stay what they are, with rows that say little about them."""
    random = np.random.default_rng(seed)
    codes = np.cumsum(random.uniform(size=rows) > stay) % 2
    return random.normal(size=(rows, 3)) + 0.3 * codes[:, None], codes


def test_labels_in_runs_are_followed():
    X, codes = in_runs()
    order = np.random.default_rng(1).permutation(codes.size)
    clf, shuffled = AutoMargin(), AutoMargin()
    right = (foretold(clf, X, codes)[:, 0] >= 0.0) == codes
    before = (foretold(shuffled, X[order], codes[order])[:, 0] >= 0.0) == codes[order]
    assert right.mean() > 0.8
    assert before.mean() < 0.7
    means = [
        float(mixed.weights[0] @ mixed.follows[0])
        for mixed in (state_of(each).model.experts.mixture for each in (clf, shuffled))
    ]
    assert means[0] > 2.0
    assert abs(means[1]) < 0.2


def test_shuffled_rows_lose_nothing_by_the_surprise(monkeypatch):
    """Without it, the log loss is less than two parts in a thousand away."""
    X, codes = problem(rows=4000, seed=7)
    order = np.random.default_rng(1).permutation(codes.size)
    X, codes = X[order], codes[order]
    with_it = log_losses(foretold(AutoMargin(), X, codes)[:, 0], codes).sum()
    monkeypatch.setattr("maxmargin.experts.mixture.FIRST_FOLLOW_SQUARE", 1e300)
    without = log_losses(foretold(AutoMargin(), X, codes)[:, 0], codes).sum()
    assert 0.0 < abs(with_it / without - 1.0) < 2e-3


@pytest.mark.parametrize("delay", [1, 3])
def test_the_surprise_is_that_of_the_row_learned_last(delay):
    """Labels may come late: what is evaluated is `predict` with the labels there are."""
    X, codes = in_runs(rows=60)
    report = progressive(AutoMargin(), X, codes, delay=delay, classes=[0, 1])
    clf = AutoMargin()
    for n in range(delay, codes.size):
        row, code = X[n - delay, None], codes[n - delay, None]
        chance = expit(clf.decision_function(row)) if n > delay else 0.5
        clf.partial_fit(row, code, classes=[0, 1])
        surprise = state_of(clf).model.experts.mixture.surprises
        np.testing.assert_allclose(surprise, code - chance, rtol=1e-9)
        assert report.wrong[n] == (clf.predict(X[n, None]) != codes[n])


def test_it_has_no_hyperplane():
    clf = AutoMargin(random_state=0).fit([[0.0], [1.0]], [0, 1])
    for name in ("certificate_", "coef_", "intercept_"):
        assert not hasattr(clf, name)


@pytest.mark.parametrize("classes", [2, 3])
def test_mean_hyperplanes_are_the_means_of_the_experts(classes):
    """At the centers of the columns they have the values and the slopes of the mean log-odds."""
    X, codes = problem(classes=classes, seed=2)
    clf = AutoMargin(random_state=0).fit(X + 3.0, codes)
    formula = state_of(clf).model.formula(X.shape[1])
    offsets = state_of(clf).model.experts.mixture.offsets  # without the surprise of the last row

    def mean_log_odds(x):
        full, *others = formula.groups
        d = x - full.features.centers
        z = d * np.sqrt(full.features.counts / (full.features.spreads + d**2))
        outputs = [moderated(full, z[None]).T]
        for group in others:
            z = x
            if group.features is not None:
                d = x - group.features.centers
                z = d * np.sqrt(group.features.counts / (group.features.spreads + d**2))
            outputs.append(group.weights @ z + group.intercepts)
        odds = formula.slopes * np.hstack(outputs) + offsets
        return (clf.weights_ * odds).sum(axis=1)

    basis = formula.groups[-1].features
    center, unit = basis.centers, np.sqrt(basis.spreads / basis.counts)
    for step in (0.0, *np.diag(1e-4 * unit)):
        found = clf.mean_coef_ @ (center + step) + clf.mean_intercept_
        np.testing.assert_allclose(found, mean_log_odds(center + step), rtol=1e-7, atol=1e-9)
    assert clf.mean_coef_.shape == (1 if classes == 2 else classes, X.shape[1])
    curved = AutoMargin(kernel="rbf", random_state=0).fit(X, codes)
    assert not hasattr(curved, "mean_coef_")
    with pytest.raises(AttributeError, match="Only the experts of kernel='linear'"):
        curved.mean_intercept_  # noqa: B018
    with pytest.raises(TypeError, match="certify needs a linear classifier with coef_"):
        certify(clf, X, codes)


def test_mean_hyperplanes_of_named_columns():
    clf = AutoMargin()
    for k in range(60):
        clf.learn_one({"a": float(k % 2), "b": 1.0}, "yes" if k % 2 else "no", grow=True)
    assert clf.mean_coef_.shape == (1, 2)
    assert clf.mean_coef_[0, clf.columns_["a"]] > 1.0


def test_a_class_that_counts_more_wins():
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 2)) + 0.1 * np.arange(2).repeat(50)[:, None]
    heavy = AutoMargin(class_weight={0: 1000.0, 1: 1e-4}, random_state=0)
    assert (heavy.fit(X, np.arange(2).repeat(50)).predict(X) == 0).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_duplicate_entries_of_rows_to_predict_add_up(kernel):
    X, codes = problem(seed=3, rows=80)
    clf = AutoMargin(kernel=kernel, random_state=0).partial_fit(X, codes, classes=[0, 1])
    many = 5000
    columns, values = np.arange(many) % 4, np.full(many, 4.0 / many)
    rows = sparse.csr_matrix((values, columns, [0, many]), shape=(1, 4))
    wanted = clf.decision_function(np.ones((1, 4)))
    for each in (rows, rows.tocsc()):
        np.testing.assert_allclose(clf.decision_function(each), wanted, rtol=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_float32_rows_are_computed_in_float64(make):
    X, codes = problem(seed=4, rows=80)
    narrow = X.astype(np.float32)
    ours = AutoMargin().partial_fit(make(narrow), codes, classes=[0, 1])
    theirs = AutoMargin().partial_fit(make(narrow.astype(float)), codes, classes=[0, 1])
    np.testing.assert_array_equal(
        ours.decision_function(make(narrow)), theirs.decision_function(make(narrow.astype(float)))
    )


def test_no_copy_of_a_model_is_left_behind():
    X, codes = problem(rows=40)
    clf = AutoMargin().partial_fit(X, codes, classes=[0, 1])
    gc.collect()
    gc.disable()
    try:
        before = weakref.ref(state_of(clf).model)
        clf.partial_fit(X, codes)
        assert before() is None
    finally:
        gc.enable()


def test_a_list_of_centered_columns_that_does_not_fit_is_refused():
    X, codes = problem(rows=50)
    model = state_of(AutoMargin().partial_fit(X, codes, classes=[0, 1])).model
    assert model.invalid_reason() == ""
    model.experts.standardized.listed[0, 1] = model.experts.standardized.listed[0, 0]
    assert "centered columns" in model.invalid_reason()
