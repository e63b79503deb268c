"""The fixed-share vote: against a naive one over learners that learn alone, and its theorem."""

import math
import os
import pickle

import numpy as np
import pytest
from algorithms.moving import pursuits
from extent import everything_or
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import maxmargin
from maxmargin import (
    ALMA,
    AMIRA,
    NORMA,
    PUMMA,
    BisectionPerceptron,
    FixedShare,
    PassiveAggressive,
    Pegasos,
    Perceptron,
    TrackingALMA,
)
from maxmargin.core.targets import Binary, weighted
from maxmargin.datasets import load_electricity, make_drifting, make_switching
from maxmargin.evaluate import progressive
from maxmargin.experts.votes import new_votes, vote

KERNEL = {"kernel": "rbf", "gamma": 2.0, "fit_intercept": False}


def naive_vote(said, labels, classes, rate, share):
    """Herbster and Warmuth's fixed share over predictions of 0/1 loss: ``said[t, i]``."""
    experts = said.shape[1]
    w, votes, history = np.full(experts, 1.0 / experts), [], []
    for predicted, label in zip(said, labels, strict=True):
        votes.append([w[predicted == c].sum() for c in range(classes)])
        w = w * np.exp(-rate * (predicted != label))
        pool = share * w.sum()
        w = (1.0 - share) * w + (pool - share * w) / (experts - 1)
        w = w / w.sum()
        history.append(w)
    return np.array(votes), np.array(history)


def alone(learner, X, codes, classes):
    """What a learner predicts for each row before it learns from it."""
    order = np.arange(len(codes), dtype=np.int32)
    outputs, _ = clone(learner).score_then_learn(X, codes, order, classes=np.arange(classes))
    return (outputs[:, 0] >= 0.0).astype(int) if classes == 2 else outputs.argmax(axis=1)


def problem(classes, rows=300, features=5, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, features))
    w = random.normal(size=(classes, features))
    codes = (X @ w.T + random.normal(size=(rows, classes))).argmax(axis=1)
    codes[rows // 2 :] = (codes[rows // 2 :] + 1) % classes  # the target moves
    return X, codes


GRIDS = {
    "one kind": [NORMA(decay=decay, margin=m) for decay in (0.0, 0.01) for m in (0.0, 1.0)],
    "many kinds": [
        NORMA(rate=1.0, decay=0.1),
        Perceptron(),
        AMIRA(epsilon=0.5, multiclass="ovr"),
        NORMA(rate=0.2, decay=0.0),
        PassiveAggressive(C=0.1),
        AMIRA(),
        PassiveAggressive(C=1.0, fit_intercept=False),
        Pegasos(lambda_=0.1, project=True),
        Pegasos(lambda_=0.01),
        ALMA(p=4.0, alpha=0.5),
        ALMA(p=4.0, alpha=0.9),
        PUMMA(),
        PUMMA(delta=0.5),
    ],
    "the default": None,
}


@pytest.mark.parametrize(
    ("grid", "classes", "layout"),
    [
        ("one kind", 2, np.asarray),
        ("one kind", 2, sparse.csr_matrix),
        ("many kinds", 2, np.asarray),
        ("one kind", 3, np.asarray),
        ("the default", 2, np.asarray),
        *everything_or(
            [],
            [
                ("many kinds", 3, np.asarray),
                ("one kind", 3, sparse.csr_matrix),
                ("the default", 3, np.asarray),
            ],
        ),
    ],
)
def test_it_is_the_naive_vote_of_learners_that_learn_alone(grid, classes, layout):
    X, codes = problem(classes)
    clf = FixedShare(learners=GRIDS[grid], share=0.01, rate=0.7)
    order = np.arange(codes.size, dtype=np.int32)
    outputs, _ = clf.score_then_learn(layout(X), codes, order, classes=np.arange(classes))
    experts = clf.experts_
    said = np.column_stack([alone(each, layout(X), codes, classes) for each in experts])
    votes, weights = naive_vote(said, codes, classes, rate=0.7, share=0.01)
    np.testing.assert_allclose(clf.weights_, weights[-1], rtol=1e-9)
    scores = votes[:, 1:] - votes[:, :1] if classes == 2 else 2.0 * votes - 1.0
    np.testing.assert_allclose(outputs, scores, atol=1e-12)
    assert clf.expert_mistakes_.tolist() == (said != codes[:, None]).sum(axis=0).tolist()
    wrong = (outputs[:, 0] >= 0.0) != codes if classes == 2 else outputs.argmax(axis=1) != codes
    assert clf.n_mistakes_ == wrong.sum()


def test_experts_are_in_the_given_order():
    grid = GRIDS["many kinds"]
    X, codes = problem(2)
    clf = FixedShare(learners=grid).partial_fit(X, codes, classes=[0, 1])
    assert list(map(str, clf.experts_)) == list(map(str, grid))
    assert clf.weights_.size == len(grid)


@pytest.mark.parametrize("budget", [None, 20])
def test_kernels_vote_as_learners_that_learn_alone(budget):
    X, y = make_switching(600, every=200, random_state=3)
    grid = [NORMA(rate=1.0, decay=d, margin=1.0, budget=budget, **KERNEL) for d in (0.02, 0.1)]
    grid += [AMIRA(epsilon=e, multiclass="ovr", budget=budget, **KERNEL) for e in (0.1, 0.9)]
    clf = FixedShare(learners=grid)
    progressive(clf, X, y)
    said = np.column_stack([alone(each, X, (y > 0).astype(int), 2) for each in grid])
    assert clf.expert_mistakes_.tolist() == (said != (y > 0)[:, None]).sum(axis=0).tolist()


@pytest.mark.parametrize("parameters", [{}, {"budget": 10, **KERNEL}, {"learners": [AMIRA()] * 3}])
@pytest.mark.parametrize("classes", [2, 3])
def test_any_chunking_gives_the_same_vote(classes, parameters):
    X, codes = problem(classes, rows=130)
    known = np.arange(classes)
    whole = FixedShare(**parameters).partial_fit(X, codes, classes=known)
    cut = FixedShare(**parameters)
    for start, stop in ((0, 1), (1, 70), (70, 130)):
        cut.partial_fit(X[start:stop], codes[start:stop], classes=known)
    assert cut.weights_.tolist() == whole.weights_.tolist()
    assert cut.decision_function(X).tolist() == whole.decision_function(X).tolist()


def test_dicts_names_and_classes_may_come_later():
    X, codes = problem(3, rows=60, features=4)
    grown, whole = FixedShare(), FixedShare()
    whole.partial_fit(X, codes, classes=[0, 1, 2], grow=True)
    grown.partial_fit(X[:1, :2], codes[:1], grow=True)
    again = FixedShare().partial_fit(X[:1, :2], codes[:1], classes=[0, 1, 2], grow=True)
    for x, label in zip(X[1:], codes[1:], strict=True):
        grown.partial_fit(x[None], [label], grow=True)
        again.partial_fit(x[None], [label], grow=True)
    assert grown.weights_.tolist() == again.weights_.tolist()
    clf = FixedShare(learners=GRIDS["one kind"])
    for x, label in zip(X, codes, strict=True):
        clf.learn_one({f"x{j}": value for j, value in enumerate(x)}, label, classes=[0, 1, 2])
    plain = FixedShare(learners=GRIDS["one kind"]).partial_fit(X, codes, classes=[0, 1, 2])
    assert clf.weights_.tolist() == plain.weights_.tolist()
    assert clf.predict_one(dict(clf.columns_, x0=2.0)) in (0, 1, 2)


@pytest.mark.parametrize(
    "parameters", [{}, {"budget": 10, **KERNEL}, {"learners": GRIDS["many kinds"]}]
)
def test_it_goes_on_from_files_and_pickles(parameters, tmp_path):
    X, codes = problem(3, rows=120)
    clf = FixedShare(**parameters).partial_fit(X[:70], codes[:70], classes=[0, 1, 2])
    maxmargin.save(clf, tmp_path / "vote.mm")
    read, copied = maxmargin.load(tmp_path / "vote.mm"), pickle.loads(pickle.dumps(clf))
    for each in (clf, read, copied):
        each.partial_fit(X[70:], codes[70:])
    for each in (read, copied):
        assert each.weights_.tolist() == clf.weights_.tolist()
        assert each.decision_function(X).tolist() == clf.decision_function(X).tolist()


def test_a_row_of_large_weight_leaves_the_experts_that_were_right():
    for said, expected in (([1, 1, 0], [0.5, 0.5, 0.0]), ([0, 0, 0], [1 / 3, 1 / 3, 1 / 3])):
        votes, tally = new_votes(3), maxmargin.models.base.new_tally()
        targets = weighted(Binary(np.array([1], np.int32)), np.array([1e12]))
        order, scores = np.zeros(1, np.int32), np.empty((1, 1))
        given = np.array([said], np.int64), order, targets, 2
        vote(*given, votes, math.exp(-0.7), 0.0, scores, tally)
        np.testing.assert_allclose(votes.weights, expected)


def test_a_single_expert_keeps_all_weight():
    X, codes = problem(2, rows=50)
    clf = FixedShare(learners=[Perceptron()], share=0.3).partial_fit(X, codes, classes=[0, 1])
    np.testing.assert_allclose(clf.weights_, [1.0])
    alone_too = Perceptron().partial_fit(X, codes, classes=[0, 1])
    assert clf.predict(X).tolist() == alone_too.predict(X).tolist()


# --------------------------------------------------------------------------------------- theorem
def fewest_mistakes(wrong, switches):
    """Of all sequences of experts that change at most so often (dynamic programming)."""
    best = np.zeros((switches + 1, wrong.shape[1]))
    for line in wrong:
        moved = np.vstack(
            [np.full(best.shape[1], np.inf), np.repeat(best.min(1)[:-1, None], best.shape[1], 1)]
        )
        best = np.minimum(best, moved) + line
    return int(best.min())


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 6),
    st.integers(2, 200),
    st.floats(1e-3, 0.5),
    st.floats(0.01, 3.0),
    st.integers(0, 4),
    st.integers(0, 2**32 - 1),
)
def test_the_mistakes_of_a_vote_are_bounded(experts, trials, share, rate, switches, seed):
    random = np.random.default_rng(seed)
    switches = min(switches, trials - 1)
    skill = random.random((switches + 1, experts)) < 0.5
    right = (
        random.random((trials, experts))
        < np.where(skill, 0.95, 0.3)[np.arange(trials) * (switches + 1) // trials]
    )
    labels = random.integers(2, size=trials).astype(np.int32)
    said = np.where(right, labels[:, None], 1 - labels[:, None]).astype(np.int32)
    votes, tally = new_votes(experts), maxmargin.models.base.new_tally()
    order = np.arange(trials, dtype=np.int32)
    scores = np.empty((trials, 1))
    vote(said, order, Binary(labels), 2, votes, math.exp(-rate), share, scores, tally)
    best = fewest_mistakes(~right, switches)
    bound = FixedShare.mistake_bound(best, switches, experts, trials, share=share, rate=rate)
    assert tally.mistakes[0] <= bound
    np.testing.assert_allclose(votes.weights.sum(), 1.0)


def test_the_bound_is_nearly_reached():
    """One expert is right, all others are wrong from the start: only ln K can be paid."""
    experts, rate = 1024, 1.0
    bound = FixedShare.mistake_bound(0, 0, experts, 1000, share=0.0, rate=rate)
    assert FixedShare.mistake_bound(0, 1, 2, 9, share=0.0, rate=rate) == math.inf
    assert bound == pytest.approx(math.log(experts) / math.log(2.0 / (1.0 + math.exp(-rate))))
    labels = np.zeros(1000, dtype=np.int32)
    # An adversary lets just over half of the weight be wrong in each trial.
    votes, tally = new_votes(experts), maxmargin.models.base.new_tally()
    scores, order = np.empty((1, 1)), np.zeros(1, dtype=np.int32)
    for _ in range(1000):
        heaviest = np.argsort(votes.weights[1:])[::-1] + 1
        needed = np.searchsorted(np.cumsum(votes.weights[heaviest]), 0.5) + 1
        said = np.zeros((1, experts), dtype=np.int32)
        said[0, heaviest[:needed]] = 1
        vote(said, order, Binary(labels), 2, votes, math.exp(-rate), 0.0, scores, tally)
    assert 0.8 * bound <= tally.mistakes[0] <= bound


# -------------------------------------------------------------------------------- moving targets
@pytest.mark.slow
@pytest.mark.parametrize("stream", [make_drifting, make_switching])
def test_moving_targets_need_no_tuning(stream):
    """Of few mistakes: the best expert's in hindsight, a tenth of these, and two."""
    mistakes, best, median = [], [], []
    for seed in range(2):
        X, y = stream(3000, random_state=seed)
        clf = FixedShare(budget=100, **KERNEL)
        mistakes.append(progressive(clf, X, y).wrong.sum())
        best.append(clf.expert_mistakes_.min())
        median.append(np.median(clf.expert_mistakes_))
    assert np.mean(mistakes) <= 1.1 * np.mean(best) + 2.0
    assert np.mean(mistakes) <= 0.7 * np.mean(median)


@pytest.mark.skipif("MAXMARGIN_DATA" not in os.environ, reason="MAXMARGIN_DATA names no folder")
def test_electricity_without_tuning():
    X, y = load_electricity()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    clf = FixedShare()
    report = progressive(clf, X, y)
    assert report.accuracy >= 0.92
    assert report.wrong.sum() <= 1.02 * clf.expert_mistakes_.min()


# ------------------------------------------------------------------------------ without tuning
def moving_facts(pursuit):
    known = pursuit.known() | {"margin": pursuit.margin, "trials": len(pursuit.y)}
    return known | {"drift": pursuit.drift(), "squared_drift": pursuit.squared_drift()}


def best_tuned_expert(facts):
    """The least of the bounds on its experts, from the theorems with any rate and any decay."""
    p, X, T = facts["p"], facts["radius"], facts["trials"]
    B, mu, K, D1, D2 = (facts[n] for n in ("norm", "margin", "losses", "drift", "squared_drift"))
    curvature, found = (p - 1) * X**2, []
    rate = 1 / ((p - 1) * X)
    while True:
        gain = mu / B - rate * curvature / 2
        if gain > 0:
            found.append((K / B + (1 + 2 * D1 / B) / (2 * rate)) / gain)
        if rate <= 1 / (2 * X * T):
            break
        rate /= 2
    a = 2.0
    rates = np.geomspace(1e-6, 1, 4000) * 2 * mu / curvature
    decays = [0.0]
    while True:
        decays.append(a)
        if a <= 1 / T:
            break
        a /= 2
    for a in decays:
        if a > 0 or D2 == 0:
            S = B**2 + ((D2 / a if D2 else 0.0) + 2 * B * D1 + a * T * B**2) / (2 + a)
            gains = mu - rates * curvature / 2
            found.append(np.min((K + S / (2 * rates[gains > 0])) / gains[gains > 0]))
    return min(found)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(pursuit=pursuits(exponents=(2.0, 4.0)))
def test_moving_targets_by_theorem(pursuit):
    """Nothing but the length of rows and their number is known to it."""
    facts = moving_facts(pursuit)
    given = {name: facts[name] for name in ("radius", "trials", "p")}
    clf = FixedShare.tracking(**given, fit_intercept=False)
    clf.partial_fit(pursuit.X, pursuit.y, classes=[-1, 1])
    assert clf.n_mistakes_ <= FixedShare.tracking_bound(**facts)
    best = best_tuned_expert(facts)
    assert clf.expert_mistakes_.min() <= best * (1 + 1e-9)


@given(pursuit=pursuits(exponents=(2.0, 4.0)))
def test_the_bound_without_tuning(pursuit):
    """That of the best expert, which is at most 4/3 of Theorem 2 for the best tuning."""
    facts, rate = moving_facts(pursuit), 0.5
    best = best_tuned_expert(facts)
    experts = len(FixedShare.tracking(facts["radius"], facts["trials"], p=facts["p"]).learners)
    fall = np.log(2 / (1 + np.exp(-rate)))
    bound = FixedShare.tracking_bound(**facts, rate=rate)
    shared = -(facts["trials"] - 1) * np.log(1 - 1 / (facts["trials"] + 1))
    assert shared <= 1.0
    assert bound == pytest.approx((rate * best + np.log(experts) + shared) / fall, rel=1e-3)
    squared = facts.pop("squared_drift")
    without = FixedShare.tracking_bound(**facts, rate=rate)
    assert bound <= without * (1 + 1e-12) or squared == 0.0
    trials = facts.pop("trials")
    ideal = TrackingALMA.mistake_bound(**facts)
    if ideal < trials and facts["margin"] <= facts["radius"] * facts["norm"]:
        assert without <= (rate * 4 / 3 * ideal + np.log(experts) + 1.0) / fall * (1 + 1e-12)


def test_a_bound_without_tuning_needs_a_margin():
    assert FixedShare.tracking_bound(1.0, 1.0, 0.0, 10) == math.inf
    with pytest.raises(ValueError, match="'drift' and 'squared_drift' parameters must both"):
        FixedShare.tracking_bound(1.0, 1.0, 0.5, 10, squared_drift=1.0)


# ------------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("learners", "message"),
    [
        ([], "at least one"),
        ([NORMA(), 3], r"learners\[1\] is 3"),
        ([BisectionPerceptron()], "no partial_fit"),
        ([FixedShare()], "a vote itself"),
        ([Perceptron(average=True)], "averaged"),
        ([AMIRA(soft_margin=1.0)], "soft margin"),
        ([AMIRA(kernel="precomputed")], "precomputed"),
        ([NORMA(rate=-1.0)], "'rate' parameter of NORMA"),
        ([maxmargin.NOCA()], r"learners\[0\] is NOCA"),
    ],
)
def test_who_cannot_vote(learners, message):
    X, codes = problem(2, rows=20)
    with pytest.raises((ValueError, TypeError), match=message):
        FixedShare(learners=learners).fit(X, codes)


def test_experts_cannot_change_but_for_their_numbers():
    X, codes = problem(2, rows=40)
    clf = FixedShare(learners=[NORMA(decay=0.0), NORMA(decay=0.1)])
    clf.partial_fit(X, codes, classes=[0, 1])
    before = clf.weights_
    clf.learners = [NORMA(decay=0.0), NORMA(decay=0.2)]
    clf.partial_fit(X, codes)
    weights = clf.weights_
    assert weights.tolist() != before.tolist()
    clf.learners = [NORMA(decay=0.0), PUMMA()]
    with pytest.raises(ValueError, match="'learners' parameter of FixedShare cannot change"):
        clf.partial_fit(X, codes)
    with pytest.raises(ValueError, match="'learners' parameter of FixedShare cannot change"):
        maxmargin.save(clf, "nowhere")
    assert clf.weights_.tolist() == weights.tolist()


def test_a_vote_has_no_hyperplane():
    X, codes = problem(2, rows=40)
    clf = FixedShare(random_state=0).fit(X, codes)
    for name in ("coef_", "intercept_", "certificate_", "support_"):
        assert not hasattr(clf, name)
    assert clf.n_iter_ == 20
    assert clf.score(X, codes) > 0.5
