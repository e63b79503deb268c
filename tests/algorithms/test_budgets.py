"""Kernel learners in bounded memory: what the references do, and what theory promises."""

import itertools
import pickle

import numpy as np
import pytest
import reference_budget as reference
import reference_kernel as kernels
from extent import EVERYTHING, everything_or
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import FaultyKernel, chunk_sizes, label, overlapping, separable, three_classes
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from maxmargin import (
    AMIRA,
    NORMA,
    Forgetron,
    PassiveAggressive,
    Pegasos,
    Perceptron,
    Projectron,
    RandomBudgetPerceptron,
    TrackingALMA,
)
from maxmargin.models import budget_model, budget_policies
from maxmargin.training.protocol import state_of

ROWS, OFFSET, RIDGE, SEED = 60, 0.7, 0.4, 3
X, y = overlapping(n=ROWS, d=4, distance=1.5)
NEAR = overlapping(n=ROWS, d=2, distance=1.5)
THREE = three_classes(n=ROWS, d=4, spread=1.5)
RBF = {"kernel": "rbf", "gamma": 0.5}
FORMS = {"dense": np.asarray, "CSR": sparse.csr_matrix}
ON_FULL = ("oldest", "random", "project")
seeds = st.integers(0, 2**32 - 1)
every_policy = pytest.mark.parametrize("on_full", ON_FULL)


def square_and_product(some, others):
    """A kernel that users might write."""
    return some @ others.T + 0.1 * (some @ others.T) ** 2


KERNELS = {
    "rbf": (RBF, lambda A: kernels.rbf(A, A, 0.5)),
    "poly": (
        {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 0.0},
        lambda A: kernels.poly(A, A, 0.5, 2, 0.0),
    ),
    "linear": ({"kernel": "linear"}, lambda A: A @ A.T),
    "callable": ({"kernel": square_and_product}, lambda A: square_and_product(A, A)),
}
PERCEPTRONS = [
    Forgetron(budget=7),
    RandomBudgetPerceptron(budget=7, random_state=SEED),
    Projectron(threshold=0.3, budget=7),
    Projectron(threshold=0.01, plus=False),
]
RULES = [
    AMIRA(epsilon=0.3, multiclass="ovr"),
    Perceptron(margin=0.2, rate=0.5),
    PassiveAggressive(C=0.5),
    NORMA(rate=0.3, decay=0.1, truncation=0.0),
    TrackingALMA(rate=0.3, radius=1.5, margin=0.5),
    Pegasos(lambda_=0.1),
]
every_perceptron = pytest.mark.parametrize("learner", PERCEPTRONS, ids=label)
# What gives way is no business of the rule: each rule has its way, and one of them all.
WAYS = everything_or(
    [
        (rule, on_full)
        for number, rule in enumerate(RULES)
        for place, on_full in enumerate(ON_FULL)
        if number % 3 == place or isinstance(rule, NORMA)
    ],
    list(itertools.product(RULES, ON_FULL)),
)
every_way = pytest.mark.parametrize(("learner", "on_full"), WAYS, ids=label)


def cut_into(monkeypatch, block):
    """Let the work be done in pieces of this size."""
    for module in (budget_model, budget_policies):
        monkeypatch.setattr(module, "BLOCK", block)


def feed(clf, rows, labels, sizes, forms=(np.asarray,)):
    """Present the rows in chunks of these sizes, in one form after the other."""
    starts = np.cumsum([0, *sizes])
    for number, (start, stop) in enumerate(itertools.pairwise(starts)):
        chunk = forms[number % len(forms)](rows[start:stop])
        clf.partial_fit(chunk, labels[start:stop], classes=np.unique(labels))
    return clf


def summed(clf, rows=ROWS):
    """The coefficients of all training rows; a row may have several slots."""
    full = np.zeros((clf.dual_coef_.shape[0], rows))
    np.add.at(full.T, clf.support_, clf.dual_coef_.T)
    return full


def assert_close(mine, expected, tolerance=1e-10):
    size = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance * size)


def assert_same_model(first, second, tolerance=1e-10):
    np.testing.assert_array_equal(first.support_, second.support_)
    assert_close(first.dual_coef_, second.dual_coef_, tolerance)
    assert_close(first.intercept_, second.intercept_, tolerance)
    assert first.n_updates_ == second.n_updates_
    assert first.n_mistakes_ == second.n_mistakes_


def true_square(clf, K, c=0):
    """The squared length of w, given the kernel values of all rows with intercept and ridge."""
    weights = summed(clf, len(K))[c]
    return weights @ K @ weights


# ---------------------------------------------------------------------------------- the references
def _stream(rows, features, classes, whole_numbers, repeated, zeros, seed):
    random = np.random.default_rng(seed)
    A = random.normal(size=(rows, features))
    A = np.round(A) if whole_numbers else A
    labels = np.argmax(A @ random.normal(size=(features, classes)), axis=1)
    labels = np.where(random.uniform(size=rows) < 0.3, random.integers(classes, size=rows), labels)
    for i in np.flatnonzero(random.uniform(size=rows) < repeated):
        A[i] = A[random.integers(i + 1)]
    A[random.uniform(size=rows) < zeros] = 0
    labels[:classes] = np.arange(classes)
    return A, labels


streams = st.builds(
    _stream,
    rows=st.integers(12, 40),
    features=st.integers(1, 6),
    classes=st.integers(2, 3),
    whole_numbers=st.booleans(),
    repeated=st.sampled_from([0.0, 0.3]),
    zeros=st.sampled_from([0.0, 0.2]),
    seed=seeds,
)
few = st.sampled_from([1, 2, 3, 5, 100])
LEARNERS = {
    "Forgetron": st.builds(Forgetron, budget=few),
    "random": st.builds(RandomBudgetPerceptron, budget=few, random_state=st.integers(0, 99)),
    "Projectron": st.builds(
        Projectron,
        threshold=st.sampled_from([0.0, 0.01, 0.1, 0.5]),
        plus=st.booleans(),
        budget=few | st.none(),
    ),
}


def choices_at_random(K, signs, clf, draws):
    """The slots of a `RandomBudgetPerceptron`, which draws for each trial, needed or not.

    When the k-th row is replaced depends on the choices before the k-th only.
    """
    order, slots = np.arange(len(K)), (clf.budget * draws).astype(int)
    choices = [0] * len(K)
    while True:
        trace = reference.random_budget(K, signs, order, budget=clf.budget, choices=choices)
        before = [0, *(len(store.ids) for store in trace.history[:-1])]
        replaced = np.flatnonzero(trace.updated & (np.array(before) == clf.budget))
        right = slots[replaced].tolist()
        if choices[: len(right)] == right:
            return trace
        choices[: len(right)] = right


def follow(clf, K, labels, classes):
    """What the reference does, for each problem."""
    order, problems = np.arange(len(K)), 1 if classes == 2 else classes
    seed = check_random_state(clf.random_state).randint(2**31 - 1)
    draws = np.random.default_rng(seed).random(len(K))

    def learn(signs, c):
        if isinstance(clf, Forgetron):
            return reference.forgetron(K, signs, order, budget=clf.budget)
        if isinstance(clf, RandomBudgetPerceptron):
            return choices_at_random(K, signs, clf, draws)
        given = {"threshold": clf.threshold, "plus": clf.plus, "budget": clf.budget}
        return reference.projectron(K, signs, order, **given, rounding=1e-8)

    if problems == 1:
        return [learn(np.where(labels == 1, 1.0, -1.0), 0)]
    return reference.one_vs_rest(learn, labels, classes)[0]


def clear_trials(clf, traces, K, labels, exact):
    """How many trials there are until rounding, or the tie of two classes, might decide."""
    unclear = np.zeros(len(K), dtype=bool)
    met = np.maximum.accumulate([trace.updated for trace in traces], axis=1)
    known = np.append(False, met.any(axis=0)[:-1]) & (np.diag(K) > 0)  # else outputs are 0
    for c, trace in enumerate(traces):
        margins = np.where(labels == (c if len(traces) > 1 else 1), 1, -1) * trace.outputs
        if not exact:
            unclear |= known & (np.abs(margins) < 1e-9)
        if isinstance(clf, Projectron):
            unclear |= np.abs(margins - 1) < 1e-9
            used = np.isfinite(trace.squares) & known
            squares, own = trace.squares[used], np.diag(K)[used]
            doubtful = (squares > 1e-13 * own) & (squares < 1e-4 * own)
            doubtful |= np.abs(squares - clf.threshold) < 1e-9 * (clf.threshold > 0)
            doubtful |= own - squares < 1e-9 * own
            if clf.threshold > 0:
                doubtful |= np.abs(1 - margins[used] - squares / clf.threshold) < 1e-9
            unclear[np.flatnonzero(used)[doubtful]] = True
    if len(traces) > 1:
        unclear |= known & (np.abs(leads(traces, labels)) < 1e-9)
    return int(np.argmax(unclear)) if unclear.any() else len(K)


def leads(traces, labels):
    """By how much the class of a row is ahead of all others."""
    if len(traces) == 1:
        return np.where(labels == 1, 1, -1) * traces[0].outputs
    outputs = np.array([trace.outputs for trace in traces])
    own = outputs[labels, np.arange(labels.size)]
    outputs[labels, np.arange(labels.size)] = -np.inf
    return own - outputs.max(axis=0)


def assert_follows(clf, traces, labels, t):
    """After trial t: the stores, and all that was counted."""
    ends = np.cumsum([len(trace.history[t].ids) for trace in traces])
    assert clf.support_.size == ends[-1]
    for c, (trace, end) in enumerate(zip(traces, ends, strict=True)):
        store = trace.history[t]
        here = slice(end - len(store.ids), end)
        mine, others = np.argsort(clf.support_[here]), np.argsort(store.ids)
        np.testing.assert_array_equal(clf.support_[here][mine], store.ids[others])
        assert_close(clf.dual_coef_[c, here][mine], store.coefficients[others])
        assert np.count_nonzero(clf.dual_coef_[c]) == np.count_nonzero(clf.dual_coef_[c, here])
    assert clf.n_updates_ == sum(trace.updated[: t + 1].sum() for trace in traces)
    assert clf.n_mistakes_ == np.sum(leads(traces, labels)[: t + 1] <= 0)


@pytest.mark.parametrize("name", LEARNERS)
@settings(max_examples=80 if EVERYTHING else 30, deadline=None)
@given(data=st.data())
def test_follows_the_reference_row_by_row(name, data):
    rows, labels = data.draw(streams)
    classes, kernel = int(labels.max()) + 1, data.draw(st.sampled_from(sorted(KERNELS)))
    form = data.draw(st.sampled_from(sorted(FORMS))) if kernel != "callable" else "dense"
    offset, ridge = data.draw(st.sampled_from([(0.0, 0.0), (OFFSET, 0.0), (OFFSET, RIDGE)]))
    clf = data.draw(LEARNERS[name]).set_params(
        **KERNELS[kernel][0],
        fit_intercept=offset > 0,
        intercept_scaling=offset or 1.0,
        soft_margin=ridge,
        shuffle=False,
        max_iter=1,
    )
    plain = KERNELS[kernel][1](rows)
    K = plain + offset**2 + ridge * np.eye(len(rows))
    traces = follow(clf, K, labels, classes)
    # Ties are exact where all kernel values and coefficients are small whole numbers.
    exact = name == "random" and kernel == "linear" and offset == 0 and not (rows % 1).any()
    size = clear_trials(clf, traces, K, labels, exact and classes == 2)
    assume(size > 0)
    for t in range(size):
        row = FORMS[form](rows[t : t + 1])
        if t > 0:
            outputs = np.ravel(clf.decision_function(row))
            assert_close(outputs, [trace.outputs[t] for trace in traces])
        clf.partial_fit(row, labels[t : t + 1], classes=range(classes))
        assert_follows(clf, traces, labels, t)
    whole = clone(clf).partial_fit(FORMS[form](rows[:size]), labels[:size], classes=range(classes))
    assert_follows(whole, traces, labels, size - 1)
    if np.unique(labels[:size]).size == classes:
        assert_follows(clone(clf).fit(rows[:size], labels[:size]), traces, labels, size - 1)
        given = clone(clf).set_params(kernel="precomputed").fit(plain[:size, :size], labels[:size])
        assert_follows(given, traces, labels, size - 1)
        assert_close(given.decision_function(plain[:, :size]), whole.decision_function(rows))


# ------------------------------------------------------------------------------------------ blocks
# Decay so fast that the scale must be folded within a block.
FOLDING = [NORMA(budget=7, rate=0.9, decay=1.11, on_full=on_full) for on_full in ON_FULL]
STEPPING = [AMIRA(budget=7, on_full=each, multiclass="ovr") for each in ON_FULL]
IN_BLOCKS = everything_or(
    [*((each, 2) for each in FOLDING), *itertools.product(PERCEPTRONS, (2, 3))],
    list(itertools.product([*PERCEPTRONS, *STEPPING, *FOLDING], (2, 3))),
)


@pytest.mark.parametrize(("learner", "classes"), IN_BLOCKS, ids=label)
@pytest.mark.parametrize("block", everything_or([1, 7], [1, 3, 7]))
def test_blocks_are_row_by_row(monkeypatch, learner, block, classes):
    rows, labels = (X, y) if classes == 2 else THREE
    plain = clone(learner).set_params(
        **RBF, soft_margin=RIDGE, fit_intercept=True, random_state=SEED, max_iter=3
    )
    expected, at_once = clone(plain).fit(rows, labels), feed(clone(plain), rows, labels, [ROWS])
    cut_into(monkeypatch, block)
    clf = clone(plain).fit(rows, labels)
    assert_same_model(clf, expected)
    for name in ("margin", "bound"):
        of_both = [getattr(one.certificate_, name) for one in (clf, expected)]
        np.testing.assert_allclose(*of_both, rtol=1e-9)
    assert_same_model(feed(clone(plain), rows, labels, [ROWS]), at_once)


@every_perceptron
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@settings(max_examples=15 if EVERYTHING else 5, deadline=None)
@given(sizes=chunk_sizes(ROWS))
def test_any_way_to_cut_a_stream(learner, form, sizes):
    plain = clone(learner).set_params(**RBF)
    for rows, labels in ((X, y), THREE):
        expected = feed(clone(plain), rows, labels, [ROWS])
        clf = feed(clone(plain), rows, labels, sizes, [form])
        assert_same_model(clf, expected)
        mixed = feed(clone(plain), rows, labels, sizes, [form, np.asarray, sparse.csr_matrix])
        assert_same_model(mixed, expected)
        assert_close(mixed.decision_function(rows), expected.decision_function(rows))


# Each is compiled anew for single precision: one that replaces rows, and one that projects them.
@pytest.mark.slow
@pytest.mark.parametrize(
    "learner", everything_or([PERCEPTRONS[0], PERCEPTRONS[2]], PERCEPTRONS), ids=label
)
def test_single_precision(learner):
    plain = clone(learner).set_params(**RBF)
    double = feed(clone(plain), X.astype(np.float32).astype(float), y, [ROWS])
    for clf in (
        feed(clone(plain), X.astype(np.float32), y, [20, 20, 20]),
        feed(clone(plain), X, y, [20, 20, 20], [np.float32, np.float64]),
        feed(clone(plain).set_params(kernel_dtype="float32"), X, y, [20, 20, 20]),
    ):
        np.testing.assert_array_equal(clf.support_, double.support_)
        assert_close(clf.decision_function(X), double.decision_function(X), 1e-3)
        assert clf.n_updates_ == double.n_updates_


# ------------------------------------------------------------------------------------------ theory
def noisy_stream(rows, seed):
    """A target that changes half way, with labels that are wrong at times."""
    random = np.random.default_rng(seed)
    A = random.normal(size=(rows, 2))
    signs = np.where(np.arange(rows) < rows // 2, 1, -1) * np.where(A[:, 0] > 0, 1, -1)
    return A, np.where(random.uniform(size=rows) < 0.1, -signs, signs)


@pytest.mark.parametrize("budget", [1, 4, 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_forgetting_costs_no_more_than_its_share(budget, seed):
    rows, labels = noisy_stream(150, seed)
    clf = Forgetron(budget=budget, **RBF)
    trace = reference.forgetron(
        kernels.rbf(rows, rows, 0.5), labels.astype(float), np.arange(150), budget=budget
    )
    for i in range(150):
        clf.partial_fit(rows[i : i + 1], labels[i : i + 1], classes=[-1, 1])
        kept = state_of(clf).model.eviction
        assert kept.gained[0] == clf.n_mistakes_ == trace.M[i]
        assert kept.lost[0] <= 15 / 32 * kept.gained[0] + 1e-12
        np.testing.assert_allclose(kept.lost[0], trace.Q[i], rtol=1e-9, atol=1e-9)
    assert (trace.phi < 1).any()


def comparisons(K, labels, longest, random):
    """Lengths and hinge losses of functions that are no longer than this."""
    ridge = np.linalg.solve(K + np.eye(len(K)), labels)
    weights = [ridge, labels.astype(float)]
    weights += [labels * (random.uniform(size=len(K)) < 0.05) for _ in range(5)]
    for a in weights:
        for part in (0.1, 0.5, 1.0):
            length = part * longest
            outputs = labels * (K @ a) * length / np.sqrt(a @ K @ a)
            yield length, np.maximum(0.0, 1.0 - outputs).sum()


def one_cloud(rows, seed):
    """Nearly always the same row and label: short functions have small losses there."""
    random = np.random.default_rng(seed)
    return 0.05 * random.normal(size=(rows, 2)), np.where(random.uniform(size=rows) < 0.95, 1, -1)


@pytest.mark.parametrize("make", [noisy_stream, one_cloud])
@pytest.mark.parametrize("seed", [0, 1])
def test_mistake_bounds(make, seed):
    rows, labels = make(400, seed)
    K, random = kernels.rbf(rows, rows, 0.5), np.random.default_rng(seed)
    for budget in (84, 120):
        clf = Forgetron(budget=budget, **RBF).partial_fit(rows, labels, classes=[-1, 1])
        for norm, losses in comparisons(K, labels, Forgetron.max_norm(budget), random):
            assert clf.n_mistakes_ <= Forgetron.max_mistakes(norm, losses, budget=budget)
    for threshold in (0.001, 0.01, 0.1):
        longest = 0.49 / np.sqrt(threshold)
        pairs = list(comparisons(K, labels, longest, random))
        for plus in (False, True):
            clf = Projectron(threshold=threshold, plus=plus, **RBF)
            clf.partial_fit(rows, labels, classes=[-1, 1])
            for norm, losses in pairs:
                most = Projectron.max_mistakes(norm, losses, threshold=threshold)
                assert clf.n_mistakes_ <= most
    assert Forgetron.max_norm(83) == 0.0
    assert Forgetron.max_mistakes(2.0, budget=100) == np.inf
    assert Forgetron.max_mistakes(1.0, 5.0, budget=100) == 22.0
    assert Projectron.max_mistakes(5.0, threshold=0.01) == np.inf


def _short_stream(kind, rows, features, flips, seed):
    """Rows of norm at most 1: any, all different directions, or few of them again and again."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, features))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    if kind == "orthogonal":
        X = np.eye(rows)
    elif kind == "repeated":
        X = np.eye(features)[random.integers(features, size=rows)]
    labels = np.where(X @ random.normal(size=X.shape[1]) > 0, 1.0, -1.0)
    return X, np.where(random.uniform(size=rows) < flips, -labels, labels)


short_streams = st.builds(
    _short_stream,
    kind=st.sampled_from(["any", "orthogonal", "repeated"]),
    rows=st.integers(1, 12),
    features=st.integers(1, 6),
    flips=st.sampled_from([0.0, 0.2, 1.0]),
    seed=seeds,
)


@settings(deadline=None, max_examples=150)
@given(stream=short_streams, budget=st.integers(1, 4), data=st.data())
def test_expected_mistakes_on_a_random_budget(stream, budget, data):
    rows, labels = stream
    expected = reference.expected_mistakes(rows @ rows.T, labels, budget=budget)
    random = np.random.default_rng(data.draw(seeds))
    directions = [labels @ rows, *random.normal(size=(10, rows.shape[1]))]
    for g in (each / np.linalg.norm(each) for each in directions if each.any()):
        for norm in np.linspace(0.02, 0.999, 15) * np.sqrt(budget):
            losses = np.maximum(0.0, 1.0 - labels * (rows @ (norm * g))).sum()
            limit = RandomBudgetPerceptron.expected_mistakes(norm, losses, budget=budget)
            assert expected <= limit * (1 + 1e-12)


@settings(deadline=None, max_examples=60)
@given(stream=short_streams, budget=st.integers(2, 4), data=st.data())
def test_expected_mistakes_against_a_sequence(stream, budget, data):
    rows, labels = stream
    expected = reference.expected_mistakes(rows @ rows.T, labels, budget=budget)
    random = np.random.default_rng(data.draw(seeds))
    for speed in (0.01, 0.1, 1.0):
        steps = speed * random.normal(size=rows.shape)
        steps[0] = (labels @ rows) / 2
        G = np.cumsum(steps, axis=0)
        G *= random.uniform(0.1, 0.99) * np.sqrt(budget) / np.linalg.norm(G, axis=1).max()
        limit = RandomBudgetPerceptron.expected_mistakes(
            np.linalg.norm(G, axis=1).max(),
            np.maximum(0.0, 1.0 - labels * np.sum(G * rows, axis=1)).sum(),
            budget=budget,
            drift=np.linalg.norm(np.diff(G, axis=0), axis=1).sum(),
        )
        assert expected <= limit * (1 + 1e-12)


def test_forgetting_is_paid_for():
    """Two rows in turns with room for one: every trial is a mistake."""
    rows, labels = np.tile(np.eye(2), (50, 1)), np.ones(100)
    assert reference.expected_mistakes(rows @ rows.T, labels, budget=1) == 100
    for norm in np.linspace(0.01, 0.99, 50):
        losses = 100 * (1.0 - norm / np.sqrt(2.0))
        assert RandomBudgetPerceptron.expected_mistakes(norm, losses, budget=1) >= 100
        # Room for both is enough for two mistakes.
        assert RandomBudgetPerceptron.expected_mistakes(norm, losses, budget=10**6) < 100


@pytest.mark.slow
@pytest.mark.parametrize("budget", [2, 4])
def test_mistakes_on_a_random_budget_in_the_mean(budget):
    rows, labels = _short_stream("repeated", 14, 6, 0.2, 5)
    expected = reference.expected_mistakes(rows @ rows.T, labels, budget=budget)
    made = [
        RandomBudgetPerceptron(budget=budget, kernel="linear", random_state=seed)
        .partial_fit(rows, labels, classes=[-1, 1])
        .n_mistakes_
        for seed in range(400)
    ]
    assert np.std(made) > 0.3
    assert np.mean(made) == pytest.approx(expected, abs=4 * np.std(made) / np.sqrt(400))


@pytest.mark.slow
@pytest.mark.parametrize("make", [noisy_stream, one_cloud])
def test_expected_mistakes_on_longer_streams(make):
    rows, labels = make(400, 0)
    K, random = kernels.rbf(rows, rows, 0.5), np.random.default_rng(0)
    for budget in (5, 50):
        made = [
            RandomBudgetPerceptron(budget=budget, random_state=seed, **RBF)
            .partial_fit(rows, labels, classes=[-1, 1])
            .n_mistakes_
            for seed in range(20)
        ]
        mean = np.mean(made) - 4 * np.std(made) / np.sqrt(20)
        for norm, losses in comparisons(K, labels, 0.99 * np.sqrt(budget), random):
            assert mean <= RandomBudgetPerceptron.expected_mistakes(norm, losses, budget=budget)


def test_expected_mistakes_by_hand():
    bound = RandomBudgetPerceptron.expected_mistakes
    assert bound(1.0, budget=4) == pytest.approx(2 / (1 - 1 / 4))
    assert bound(2.0, budget=4) == np.inf
    # (m - 3)^2 = 2 m + m^2 / 4 and a drift of 1/2 that costs as much as two losses
    found = bound(1.0, 1.0, budget=4, drift=0.5)
    assert found > 3
    assert (found - 3) ** 2 == pytest.approx(2 * found + found**2 / 4)


def test_projectron_without_threshold_is_the_perceptron():
    for rows, labels in ((X, y), THREE):
        settings = {**RBF, "fit_intercept": True, "max_iter": 1, "shuffle": False}
        clf = Projectron(threshold=0.0, plus=False, **settings).fit(rows, labels)
        plain = Perceptron(**settings).fit(rows, labels)
        assert_close(summed(clf), summed(plain))
        assert (clf.n_updates_, clf.n_mistakes_) == (plain.n_updates_, plain.n_mistakes_)


# ------------------------------------------------------------------------------------ certificates
@pytest.mark.parametrize(
    "learner",
    [
        *PERCEPTRONS,
        Projectron(threshold=0.5),
        Perceptron(margin=1.0, budget=100),
        *(PassiveAggressive(budget=6, on_full=on_full, random_state=SEED) for on_full in ON_FULL),
    ],
    ids=label,
)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", [0.0, RIDGE])
def test_certificates_hold(learner, intercept, ridge):
    proved = 0
    for seed in range(6):
        rows, labels = separable(n=25, d=2, gap=0.4, shift=0.2, seed=seed)
        clf = clone(learner).set_params(**RBF, fit_intercept=intercept, soft_margin=ridge)
        K = kernels.rbf(rows, rows, 0.5) + ridge * np.eye(25)
        best = kernels.max_margin(K, labels, intercept)
        for passes in (1, 4):
            clf.set_params(max_iter=passes, shuffle=False).fit(rows, labels)
            assert clf.certificate_.bound >= best * (1 - 1e-6)
            assert clf.certificate_.margin <= best * (1 + 1e-6)
            proved += state_of(clf).model.bounds()[0] < np.inf
    assert proved >= 6


@every_policy
def test_a_row_in_several_slots_is_one_row_of_the_soft_margin(on_full):
    """The best margin is the distance of (1, 1/2, 1/2) from 0; w is (3, 2, 1)."""
    clf = Perceptron(margin=3.0, budget=9, on_full=on_full, soft_margin=1.0, fit_intercept=False)
    clf.set_params(shuffle=False, max_iter=9, random_state=0).fit([[-1.0], [1.0]], [-1, 1])
    assert clf.certificate_.bound >= np.sqrt(1.5)
    assert clf.certificate_.margin == pytest.approx(4.0 / np.sqrt(14.0))


@pytest.mark.parametrize("threshold", [0.01, 0.3, 0.6])
@pytest.mark.parametrize("plus", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_certificate_counts_what_projections_cut_off(threshold, plus, intercept):
    (rows, signs), given = NEAR, {"threshold": threshold, "plus": plus}
    plain = kernels.rbf(rows, rows, 0.5)
    K = plain + intercept
    trace = reference.projectron(K, signs, np.arange(ROWS), **given, rounding=1e-8)
    clf = Projectron(**given, **RBF, fit_intercept=intercept)
    clf.partial_fit(rows, signs, classes=[-1, 1])
    assert_follows(clf, [trace], signs, ROWS - 1)
    assert trace.squares[trace.projected & trace.mistakes].max() <= threshold
    assert trace.squares[trace.updated & ~trace.projected].min() > threshold
    # No less than it is, and no more than the distance that counts as 0 makes of it.
    slack, mass = state_of(clf).model.eviction.slack[0], trace.mass[-1]
    assert trace.slack[-1] <= slack * (1 + 1e-9)
    assert slack <= trace.slack[-1] + 1.0001e-4 * mass
    # With an intercept the lighter class gets as much mass as the other, by a row of length 1.
    excess = abs(trace.steps @ signs) if intercept else 0.0
    length = np.sqrt(reference.store_square(plain, trace.store))
    bound = (length + slack + excess) / (mass + excess)
    mixture = np.maximum(0.0, reference.store_coefficients(trace.store, ROWS) * signs) * signs
    if intercept:
        mixture /= np.where(signs > 0, mixture[signs > 0].sum(), -mixture[signs < 0].sum())
    of_signs = np.sqrt(mixture @ plain @ mixture) / np.abs(mixture).sum()
    proved = clf.certificate_.bound
    np.testing.assert_allclose(proved, min(bound, of_signs), rtol=1e-6)


# ---------------------------------------------------------------------------- budgets of all rules
@every_way
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", [0.0, RIDGE])
def test_a_budget_that_is_never_reached(learner, on_full, intercept, ridge):
    plain = clone(learner).set_params(
        **RBF, fit_intercept=intercept, soft_margin=ridge, max_iter=3, shuffle=False, random_state=0
    )
    expected = clone(plain).fit(X, y)
    clf = clone(plain).set_params(budget=3 * ROWS + 1, on_full=on_full).fit(X, y)
    assert_close(summed(clf), summed(expected), 1e-9)
    assert_close(clf.decision_function(X), expected.decision_function(X), 1e-9)
    assert (clf.n_updates_, clf.n_mistakes_) == (expected.n_updates_, expected.n_mistakes_)
    margins = [one.certificate_.margin for one in (clf, expected)]
    np.testing.assert_allclose(*margins, rtol=1e-9)


@every_way
@pytest.mark.parametrize("offset", [0.0, OFFSET])
@pytest.mark.parametrize("ridge", [0.0, RIDGE])
def test_the_length_is_known_on_a_full_budget(learner, on_full, offset, ridge):
    several = EVERYTHING or isinstance(learner, Perceptron)
    for rows, labels in ((X, y), THREE) if several else ((X, y),):
        clf = clone(learner).set_params(
            **RBF, soft_margin=ridge, fit_intercept=offset > 0, intercept_scaling=offset or 1.0
        )
        clf.set_params(budget=5, on_full=on_full, random_state=SEED)
        K = kernels.rbf(rows, rows, 0.5) + offset**2 + ridge * np.eye(ROWS)
        for stop in range(15, ROWS + 1, 15):
            chunk = slice(stop - 15, stop)
            clf.partial_fit(rows[chunk], labels[chunk], classes=np.unique(labels))
            for c, norm2 in enumerate(state_of(clf).model.scalars.table.norm2):
                assert np.count_nonzero(clf.dual_coef_[c]) <= 5
                np.testing.assert_allclose(norm2, true_square(clf, K, c), rtol=1e-9, atol=1e-12)
        assert clf.support_.size == 5 * clf.dual_coef_.shape[0]
        assert clf.n_updates_ > clf.support_.size


def test_the_perceptron_on_a_budget_has_other_names():
    for rows, labels in ((X, y), THREE):
        for other, on_full in ((Forgetron(), "oldest"), (RandomBudgetPerceptron(), "random")):
            given = {**RBF, "budget": 6, "fit_intercept": True, "random_state": SEED, "max_iter": 3}
            clf = clone(other).set_params(**given).fit(rows, labels)
            assert_same_model(clf, Perceptron(on_full=on_full, **given).fit(rows, labels))


def test_a_projected_update_has_the_margin_it_was_made_for():
    clf, projected = AMIRA(epsilon=0.1, budget=5, on_full="project", **RBF), 0
    for i in range(ROWS):
        full, updates = i > 0 and clf.support_.size == 5, clf.n_updates_ if i else 0
        clf.partial_fit(X[i : i + 1], y[i : i + 1], classes=[-1, 1])
        if full and clf.n_updates_ > updates:
            projected += 1
            np.testing.assert_allclose(y[i] * clf.decision_function(X[i : i + 1]), 1.0, rtol=1e-9)
    assert projected > 10


# ------------------------------------------------------------------------------------ long streams
def long_stream(rows, seed):
    """Rows that come again and again, moved by nothing or by very little."""
    random = np.random.default_rng(seed)
    A = random.normal(size=(200, 3))[random.integers(200, size=rows)]
    A += 10.0 ** random.uniform(-12, -1, size=(rows, 1)) * random.normal(size=A.shape)
    return A, np.where(random.uniform(size=rows) < 0.5, 1, -1)


@pytest.mark.parametrize("offset", [0.0, OFFSET])
def test_the_inverse_stays_one(offset):
    rows, labels = long_stream(20_000, seed=0)
    clf = Projectron(threshold=0.0, budget=60, fit_intercept=offset > 0, **RBF)
    clf.set_params(intercept_scaling=offset or 1.0)
    feed(clf, rows, labels, 20 * [1000])
    inverse = state_of(clf).model.eviction.inverse
    supports = clf.support_vectors_
    gram = kernels.rbf(supports, supports, 0.5) + offset**2
    assert clf.support_.size == 60
    np.testing.assert_array_equal(supports, rows[clf.support_])
    np.testing.assert_allclose(inverse @ gram @ inverse.T, np.eye(60), rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        state_of(clf).model.scalars.table.norm2[0],
        clf.dual_coef_[0] @ gram @ clf.dual_coef_[0],
        rtol=1e-6,
    )
    assert np.isfinite(clf.dual_coef_).all()


def arrays_of(clf):
    """All arrays behind a model, by name."""
    model = state_of(clf).model
    parts = {"model": vars(model), "eviction": vars(model.eviction), "store": vars(model.store)}
    parts |= {"slots": model.store.slots._asdict(), "scalars": model.scalars._asdict()}
    parts |= {f"points {c}": vars(points) for c, points in enumerate(model.store.points)}
    return {
        (part, name): value
        for part, values in parts.items()
        for name, value in values.items()
        if isinstance(value, np.ndarray)
    }


@pytest.mark.parametrize(
    ("learner", "classes"),
    [
        *itertools.product(PERCEPTRONS[:3], (2, 3)),
        *((NORMA(on_full=on_full), 2) for on_full in ON_FULL),
        *itertools.product(everything_or([], STEPPING), (2, 3)),
    ],
    ids=label,
)
def test_memory_does_not_grow(learner, classes):
    rows, _ = long_stream(2000, seed=1)
    labels = np.random.default_rng(0).integers(classes, size=2000)
    clf = clone(learner).set_params(budget=7, random_state=SEED, **RBF)
    clf.partial_fit(rows[:300], labels[:300], classes=range(classes))
    before, size = arrays_of(clf), len(pickle.dumps(clf))
    shapes = {name: array.shape for name, array in before.items()}
    assert clf.support_.size == 7 * (1 if classes == 2 else classes)
    feed(clf, rows[300:], labels[300:], [1, 7, 92, 900, 700])
    after = arrays_of(clf)
    assert {name: array.shape for name, array in after.items()} == shapes
    assert len(pickle.dumps(clf)) <= size + 64  # integers are longer when larger


# --------------------------------------------------------------------------------------- bad input
def memory(clf):
    """All that can be seen of what a learner knows."""
    numbers = clf.n_updates_, clf.n_mistakes_, clf.n_features_in_, str(clf.certificate_)
    arrays = clf.support_, clf.dual_coef_, clf.intercept_, clf.classes_, clf.decision_function(X)
    return *numbers, *(array.tolist() for array in arrays)


@pytest.mark.parametrize("calls", range(1, 9))
@pytest.mark.parametrize(
    "learner",
    [*PERCEPTRONS, PassiveAggressive(budget=7, on_full="random", random_state=SEED)],
    ids=label,
)
def test_a_kernel_that_fails_in_the_midst_of_a_stream(monkeypatch, learner, calls):
    cut_into(monkeypatch, block=8)
    plain = clone(learner).set_params(kernel=FaultyKernel(square_and_product), soft_margin=RIDGE)
    clf, other = (clone(plain).partial_fit(X[:20], y[:20], classes=[-1, 1]) for _ in range(2))
    before = memory(clf)
    for rows in (X[20:28], X[20:]):  # one block, and several
        clf.kernel.calls = calls
        labels = y[20 : 20 + len(rows)]
        if len(rows) == 8 and calls > 3:
            continue  # all went well
        with pytest.raises(RuntimeError, match="no more"):
            clf.partial_fit(rows, labels)
        clf.kernel.calls = -1
        assert memory(clf) == before
    assert memory(clf.partial_fit(X[20:], y[20:])) == memory(other.partial_fit(X[20:], y[20:]))


FIXED_PARAMETERS = [
    *((one, "budget", 8) for one in PERCEPTRONS),
    *((Projectron(), name, value) for name, value in (("threshold", 0.2), ("plus", False))),
    *((AMIRA(budget=9), *change) for change in (("budget", None), ("on_full", "project"))),
    (AMIRA(), "budget", 8),
]


@pytest.mark.parametrize(
    ("learner", "name", "value"),
    FIXED_PARAMETERS,
    ids=lambda value: label(value) if hasattr(value, "fit") else str(value),
)
def test_parameters_that_cannot_change(learner, name, value):
    clf = clone(learner).set_params(**RBF, max_iter=1, random_state=0).fit(X, y)
    clf.set_params(warm_start=True)
    before, old = memory(clf), getattr(clf, name)
    clf.set_params(**{name: value})
    for learn in (clf.fit, clf.partial_fit):
        with pytest.raises(ValueError, match=f"The '{name}' parameter of .* cannot change"):
            learn(X, y)
    assert memory(clf.set_params(**{name: old})) == before


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_what_a_budget_does_not_go_with(kernel):
    others = [(Learner(p=4), "p") for Learner in (Perceptron, NORMA, TrackingALMA)]
    for clf, name in [
        (Perceptron(average=True), "average"),
        (AMIRA(intercept="pair"), "intercept"),
        *others,
    ]:
        clf.set_params(budget=5, kernel=kernel, gamma=0.5)
        with pytest.raises(ValueError, match=f"'{name}' parameter cannot be .* on a budget"):
            clf.fit(X, y)
        with pytest.raises(ValueError, match=f"'{name}' parameter cannot be .* on a budget"):
            clf.partial_fit(X, y, classes=[-1, 1])
        assert not hasattr(clf, "classes_")


@pytest.mark.slow
@pytest.mark.parametrize("learner", [Forgetron, RandomBudgetPerceptron, Projectron])
@pytest.mark.parametrize("scale", [1 / 16, 1.0, 16.0])
def test_the_default_width_suits_pixels_of_any_scale(learner, scale):
    """With ``1 / n_features`` they have 10 to 62 % of the digits right at the other two scales."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(scale * X, y, random_state=0)
    clf = learner(random_state=0).fit(X_train, y_train)
    assert clf.score(X_test, y_test) > 0.93
    streamed = learner(random_state=0).partial_fit(X_train, y_train, classes=range(10))
    assert streamed.score(X_test, y_test) > 0.9


def test_the_width_of_a_stream_goes_by_its_first_row():
    random = np.random.default_rng(3)
    X, y = 5.0 * random.normal(size=(60, 4)), random.integers(0, 2, 60)
    X[0] = [1.0, 2.0, 3.0, 6.0]  # their variance is 3.5
    gamma = 1.0 / (4 * (4 * 3.5 + 1) / 5)
    for rows in (X, sparse.csr_matrix(X)):
        told = Forgetron(gamma=gamma).partial_fit(rows, y, [0, 1]).decision_function(rows)
        for size in (1, 7, 60):
            clf = Forgetron()
            for start in range(0, 60, size):
                clf.partial_fit(rows[start : start + size], y[start : start + size], [0, 1])
            np.testing.assert_allclose(clf.decision_function(rows), told, rtol=1e-9, atol=1e-12)


def test_a_first_row_without_variance_says_nothing_about_the_width():
    random = np.random.default_rng(4)
    X, y = random.normal(size=(80, 4)), random.integers(0, 2, 80)
    for value in (0.0, 5.0):
        X[0] = value
        clf = Forgetron().partial_fit(X, y, [0, 1])
        told = Forgetron(gamma="auto").partial_fit(X, y, [0, 1])
        np.testing.assert_array_equal(clf.decision_function(X), told.decision_function(X))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_support_vectors_that_were_handed_out_do_not_change(form):
    X, y = overlapping(60, 3, seed=0)
    learner = Forgetron(budget=5, gamma=0.1).partial_fit(form(X[:40]), y[:40], classes=[-1, 1])
    known, updates = learner.support_vectors_, learner.n_updates_
    before = known.copy()
    for row, target in zip(X[40:], y[40:], strict=True):
        learner.learn_one(row, target)
    assert learner.n_updates_ > updates
    assert abs(known - before).max() == 0.0
