"""`LabelQueries`: labels near the margin, around any learner."""

import copy
import math
import pickle

import numpy as np
import pytest
from campaigns.label_queries import is_within_bounds
from hypothesis import given, settings
from hypothesis import strategies as st
from persistence.states import known_to
from reference_queries import every_path, in_parts, inequality, perceptron_that_asks
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from maxmargin import (
    AMIRA,
    NOCA,
    PUMMA,
    AutoMargin,
    ConformalClassifier,
    Forgetron,
    LabelQueries,
    MaxMargin,
    PassiveAggressive,
    Perceptron,
)
from maxmargin.certificates.query_bounds import SLACK
from maxmargin.persistence import ModelFileError, load, save
from maxmargin.streams import Recipe
from maxmargin.training import label_queries
from maxmargin.training.label_queries import new_sampler, sampler_in, uniform
from maxmargin.training.protocol import state_of

random = np.random.default_rng(5)
X = random.normal(size=(200, 4))
noisy = X[:, 0] + 0.4 * X[:, 1] + random.normal(size=200)
two = np.where(noisy > 0.3, "yes", "no")
three = np.digitize(noisy, [-0.6, 0.6])

LEARNERS = {
    "two classes": (Perceptron(), two),
    "three classes": (PassiveAggressive(C=0.1), three),
    "together": (AMIRA(), three),
    "mean weights": (Perceptron(average=True), two),
    "pairs": (PUMMA(), two),
    "kernel": (Perceptron(kernel="rbf", gamma=0.5), two),
    "budget": (Forgetron(budget=10, gamma=0.5), two),
    "mixture": (AutoMargin(), two),
    "mixtures of three": (AutoMargin(), three),
    "Gaussians": (NOCA(), two),
    "Gaussians of three": (NOCA(), three),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)
CUTS = st.lists(st.integers(0, 200), max_size=4)


def made(name, **parameters):
    parameters = {"budget": 0.3, "random_state": 7} | parameters
    return LabelQueries(clone(LEARNERS[name][0]), **parameters)


def streamed(name, rows=slice(None), clf=None, labels=None, **more):
    clf, y = made(name) if clf is None else clf, LEARNERS[name][1]
    given = y if labels is None else labels
    return clf.partial_fit(X[rows], given[rows], classes=np.unique(y), **more)


def bits_of(clf):
    return known_to(sampler_in(state_of(clf))), clf.decision_function(X).tobytes()


# ------------------------------------------------------------------------------ any way to learn
@every_learner
@settings(max_examples=8)
@given(cuts=CUTS)
def test_any_chunking_gives_the_same_bits(name, cuts):
    clf = made(name)
    for rows in in_parts(cuts, 200):
        streamed(name, rows, clf)
    assert bits_of(clf) == bits_of(streamed(name))
    assert clf.n_rows_ == 200
    assert 200 * 0.3 - SLACK <= clf.n_queries_ <= 200 * 0.3 + SLACK


@every_learner
def test_row_by_row_is_the_same_stream(name):
    clf, y, asked = made(name), LEARNERS[name][1], np.zeros(200, dtype=bool)
    for i in range(200):
        asked[i] = clf.query_one(X[i])
        if asked[i]:
            clf.learn_one(X[i], y[i], classes=np.unique(y))
    whole, seen = made(name), np.zeros((200, 2))
    order = np.arange(200, dtype=np.int32)
    whole.score_then_learn(X, y, order, np.unique(y), queries=seen)
    assert seen[:, 0].tolist() == asked.tolist()
    assert bits_of(clf) == bits_of(whole)
    assert clf.n_queries_ == asked.sum() < 150
    assert clf.label_share_ == asked.mean()


@every_learner
def test_the_other_labels_have_no_effect(name):
    clf, y, seen = made(name), LEARNERS[name][1], np.zeros((200, 2))
    order = np.arange(200, dtype=np.int32)
    clf.score_then_learn(X, y, order, np.unique(y), queries=seen)
    wrong = np.where(
        seen[:, 0] > 0.0, y, np.roll(np.unique(y), 1)[np.searchsorted(np.unique(y), y)]
    )
    assert (wrong != y).any()
    assert bits_of(streamed(name, labels=wrong)) == bits_of(clf)
    # The learner knows what it was asked for, and no more.
    alone, kept = clone(LEARNERS[name][0]), seen[:, 0] > 0.0
    alone.partial_fit(X[kept], y[kept], classes=np.unique(y))
    np.testing.assert_allclose(alone.decision_function(X), clf.decision_function(X), rtol=1e-9)


def test_scores_are_those_before_learning():
    clf, order = made("mixture"), np.arange(200, dtype=np.int32)
    scores, updates = clf.score_then_learn(X, two, order, ["no", "yes"])
    assert updates[-1] == clf.estimator_.n_updates_ == clf.n_queries_
    other = made("mixture")
    for i in range(200):
        if i:
            assert scores[i, 0] == other.decision_function(X[i : i + 1])[0]
        streamed("mixture", slice(i, i + 1), other)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, np.float32, np.asfortranarray, "dicts"])
def test_rows_of_other_kinds(kind):
    clf, y = LabelQueries(Perceptron(), budget=0.3, random_state=7), two
    if kind == "dicts":
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            row = dict(zip("abcd", x, strict=True))
            if clf.query_one(row):
                clf.learn_one(row, label, classes=["no", "yes"])
        assert clf.columns_ == {"a": 0, "b": 1, "c": 2, "d": 3}
        assert clf.predict_one(dict(zip("abcd", X[3].tolist(), strict=True))) in ("no", "yes")
    else:
        clf.partial_fit(kind(X), y, classes=["no", "yes"])
    expected = LabelQueries(Perceptron(), budget=0.3, random_state=7)
    expected.partial_fit(np.float32(X) if kind is np.float32 else X, y, classes=["no", "yes"])
    assert clf.n_queries_ == expected.n_queries_
    np.testing.assert_allclose(clf.estimator_.coef_, expected.estimator_.coef_, rtol=1e-6)


def test_rows_of_weight_0_are_not_there():
    weight = np.where(np.arange(200) % 3 == 0, 0.0, 2.0)
    clf = streamed("mixture", sample_weight=weight)
    kept = weight > 0.0
    other = made("mixture").partial_fit(
        X[kept], two[kept], classes=["no", "yes"], sample_weight=weight[kept]
    )
    assert clf.n_rows_ == kept.sum()
    assert bits_of(clf) == bits_of(other)
    nothing = streamed("mixture", sample_weight=np.zeros(200))
    assert nothing.n_rows_ == 0
    assert math.isnan(nothing.label_share_)


def test_new_labels_and_columns():
    clf = LabelQueries(AutoMargin(), budget=0.5, random_state=0)
    for i, (x, y) in enumerate(zip(X, three, strict=True)):
        row = {"a": x[0], "b": x[1]} | ({"c": x[2]} if i > 20 else {})
        if clf.query_one(row):
            clf.learn_one(row, int(y), grow=True)
    assert clf.classes_.tolist() == [0, 1, 2]
    assert len(clf.columns_) == 3
    wider = LabelQueries(Perceptron(), budget=0.5, random_state=0)
    wider.partial_fit(X[:100, :2], three[:100], classes=[0, 1], grow=True)
    wider.partial_fit(X[100:], three[100:], grow=True)
    assert wider.n_features_in_ == 4
    assert wider.n_rows_ == 200


def test_recipes_and_files(tmp_path):
    rows = [{"a": float(x[0]), "b": "high" if x[1] > 0 else "low"} for x in X]
    lines = [f"{x['a']},{x['b']},{y}" for x, y in zip(rows, two, strict=True)]
    path = tmp_path / "rows.csv"
    path.write_text("a,b,label\n" + "\n".join(lines))
    clf = LabelQueries(AutoMargin(), budget=0.3, random_state=7)
    clf.fit_stream(path, recipe=Recipe())
    assert clf.n_rows_ == 200
    before = clf.n_queries_
    clf.query_one(rows[0])
    assert clf.n_rows_ == 201
    clf.learn_one(rows[0], "yes")
    assert len(clf.predict(rows[:5])) == 5
    assert clf.n_queries_ >= before


# ------------------------------------------------------------------------------ the share of labels
@settings(max_examples=50)
@given(
    budget=st.sampled_from([0.001, 0.01, 0.1, 0.3, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["random", "all near", "all far", "growing", "adversary", "heavy"]),
)
def test_the_share_of_labels_holds_after_every_row(budget, seed, kind):
    draws, sampler = np.random.default_rng(seed), new_sampler(budget, None, seed)
    asked = False
    for t in range(1, 600):
        margin = {
            "random": draws.exponential(),
            "all near": 0.0,
            "all far": 1e300,
            "growing": 2.0 ** min(t, 900),
            "adversary": 0.0 if asked else 1e6,
            "heavy": abs(draws.standard_cauchy()) ** 3,
        }[kind]
        asked, chance = sampler.ask(np.array([margin]), 2)
        rows, queries = sampler.counts.tolist()
        assert rows == t
        assert 0.0 <= chance <= 1.0
        low, high = LabelQueries.label_limits(t, budget)
        assert low - 1e-9 <= queries <= high + 1e-9


def test_the_share_is_met():
    """On a stream of one kind b finds its place, whatever the units of margins are."""
    for unit in (1e-6, 1.0, 1e6):
        sampler, draws = new_sampler(0.1, None, 3), np.random.default_rng(0)
        for margin in unit * draws.exponential(size=20_000):
            sampler.ask(np.array([margin]), 2)
        rows, queries = sampler.counts
        assert abs(queries / rows - 0.1) < 0.0026
        assert 0.01 * unit < sampler.b() < unit
        assert sampler.judged[0] > 0.99 * rows  # the limits are hardly met


def test_random_numbers_are_uniform_and_depend_on_seed_and_place():
    found = np.array([uniform(3, t) for t in range(20_000)])
    assert 0.0 <= found.min() < found.max() < 1.0
    counts = np.histogram(found, bins=20, range=(0.0, 1.0))[0]
    assert ((counts - 1000.0) ** 2 / 1000.0).sum() < 45.0  # chi square, 19 degrees of freedom
    other = np.array([uniform(4, t) for t in range(20_000)])
    for first, second in ((found, other), (found[1:], found[:-1])):
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.03


# ------------------------------------------------------------------------------------- the theorem
def stream_of(seed, rows, noise=0.3):
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(rows, 3))
    y = np.where(X[:, 0] + noise * draws.normal(size=rows) > 0.0, 1, -1)
    return X, y


def forced(monkeypatch, asked):
    """Let rows be asked for as this has it, unless their probability is 0 or 1."""
    numbers = np.where(asked, 0.0, 1.0 - 1e-16)
    monkeypatch.setattr(label_queries, "uniform", lambda seed, place: numbers[int(place)])


def perceptron_with(b):
    return LabelQueries(Perceptron(fit_intercept=False), b=b, random_state=0)


@pytest.mark.parametrize("b", [0.1, 1.0, 10.0])
def test_a_perceptron_asks_as_the_reference(b):
    X, y = stream_of(1, 150)
    clf, seen = perceptron_with(b), np.zeros((150, 2))
    scores, _ = clf.score_then_learn(X, y, np.arange(150, dtype=np.int32), [-1, 1], queries=seen)
    draws = [uniform(clf.sampler().seed[0], t) for t in range(150)]
    w, found = perceptron_that_asks(X, y, draws, b=b)
    np.testing.assert_allclose(scores[:, 0], found[:, 0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(seen, found[:, [2, 1]], rtol=1e-12)
    np.testing.assert_allclose(clf.estimator_.coef_[0], w, rtol=1e-12)
    assert clf.n_queries_ == found[:, 2].sum()
    assert clf.b_ == b


@pytest.mark.parametrize("seed", range(4))
def test_the_theorem_exactly(monkeypatch, seed):
    """All sequences of questions are enumerated, and the library learns each of them."""
    X, y = stream_of(seed, 7, noise=1.0)
    u, b = np.array([1.5, 0.0, -0.2]), 0.7
    mistakes = losses = total = 0.0
    for chance, w, found in every_path(X, y, b=b):
        asked = found[:, 2] > 0.0
        forced(monkeypatch, asked)
        clf = perceptron_with(b).partial_fit(X, y, classes=[-1, 1])
        np.testing.assert_allclose(clf.estimator_.coef_[0], w, rtol=1e-12)
        mistaken = y * found[:, 0] <= 0.0
        mistakes += chance * mistaken.sum()
        hinge = np.maximum(0.0, 1.0 - y * (X @ u))
        losses += chance * hinge[mistaken & asked].sum()
        total += chance
    assert total == pytest.approx(1.0)
    radius = np.sqrt((X * X).sum(axis=1).max())
    assert mistakes <= LabelQueries.max_mistakes(losses, np.linalg.norm(u), radius, b)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    b=st.floats(0.01, 100.0),
    scale=st.floats(0.01, 10.0),
    noise=st.sampled_from([0.0, 0.3, 3.0]),
)
def test_what_is_proved_for_every_path(seed, b, scale, noise):
    X, y = stream_of(seed, 60, noise)
    clf, seen = perceptron_with(b), np.zeros((60, 2))
    scores, _ = clf.score_then_learn(X, y, np.arange(60, dtype=np.int32), [-1, 1], queries=seen)
    found = np.column_stack([scores[:, 0], seen[:, 1], seen[:, 0]])
    for u in (np.array([scale, 0.0, 0.0]), clf.estimator_.coef_[0], np.zeros(3)):
        left, right, _ = inequality(X, y, u, found, b=b)
        assert left <= right * (1.0 + 1e-9)


def test_the_bound_is_that_of_the_paper():
    assert LabelQueries.max_mistakes(3.0, 2.0, 1.0, b=0.5) == 2.0 * 3.0 + 4.0 * 4.0 / 4.0
    # For b to infinity all labels are asked for; the best b for a separable stream is R^2 / 2.
    bounds = [LabelQueries.max_mistakes(0.0, 2.0, 1.0, b=b) for b in (0.25, 0.5, 1.0)]
    assert bounds[1] == min(bounds) == 4.0
    assert LabelQueries.max_mistakes(1.0, 1.0, 1.0, b=1e-320) == math.inf
    with pytest.raises(ValueError, match="'b' parameter"):
        LabelQueries.max_mistakes(1.0, 1.0, 1.0, b=0.0)


def test_adapted_b_keeps_its_bound():
    """Each sequence of questions gives an unbiased estimate of the sum of b over mistakes."""
    total = variance = 0.0
    for seed in range(60):
        X, y = stream_of(seed, 200)
        clf = LabelQueries(Perceptron(fit_intercept=False), budget=0.3, random_state=seed)
        seen = np.zeros((200, 2))
        scores, _ = clf.score_then_learn(
            X, y, np.arange(200, dtype=np.int32), [-1, 1], queries=seen
        )
        asked, chance, f = seen[:, 0] > 0.0, seen[:, 1], np.abs(scores[:, 0])
        mistaken = y * scores[:, 0] <= 0.0
        open_ = (chance > 0.0) & (chance < 1.0)
        b = np.where(open_, f * chance / np.where(open_, 1.0 - chance, 1.0), 0.0)
        both = mistaken & asked & open_
        left, u = (b + f)[both].sum(), clf.estimator_.coef_[0]
        radius = (X * X).sum(axis=1).max()
        a = b.max() + radius / 2.0
        losses = np.maximum(0.0, 1.0 - y * (X @ u))[mistaken & asked].sum()
        assert left <= a * losses + a * a * (u @ u) / 2.0
        total += (b * mistaken).sum() - left
        variance += (b * f * mistaken).sum()
    assert abs(total) < 4.0 * math.sqrt(variance)


@pytest.mark.parametrize("k", [1, 4, 6, 11, 12, 15])
def test_a_sample_of_the_campaign(k):
    """Of tests/campaigns/label_queries.py, with every learner and kind of stream."""
    assert is_within_bounds(k)


# ------------------------------------------------------------------------------------- the accuracy
@pytest.mark.parametrize("seed", range(3))
def test_the_accuracy_has_no_bias(monkeypatch, seed):
    X, y = stream_of(seed, 7, noise=1.0)
    expected = estimated = spread = squared = 0.0
    for chance, _, found in every_path(X, y, b=0.4):
        forced(monkeypatch, found[:, 2] > 0.0)
        clf = perceptron_with(0.4).partial_fit(X, y, classes=[-1, 1])
        wrong = (found[:, 0] >= 0.0) != (y > 0)
        seen = clf.accuracy_
        assert seen.rows == 7
        expected += chance * (1.0 - wrong.mean())
        estimated += chance * seen.accuracy
        spread += chance * seen.standard_error**2
        squared += chance * (seen.accuracy - (1.0 - wrong.mean())) ** 2
    assert estimated == pytest.approx(expected, abs=1e-12)
    assert spread == pytest.approx(squared, abs=1e-12)


def test_the_accuracy_needs_all_answers():
    clf = LabelQueries(Perceptron(), budget=0.5, random_state=0)
    assert clf.query_one(X[0])
    clf.learn_one(X[0], "yes", classes=["no", "yes"])
    assert clf.accuracy_ == (1.0, 0.0, 1)
    rows = iter(X[1:])
    while not clf.query_one(next(rows)):
        pass
    assert not math.isnan(clf.accuracy_.accuracy)  # the answer may come yet
    clf.query_one(next(rows))
    assert math.isnan(clf.accuracy_.accuracy)


# ----------------------------------------------------------------------------- files and parameters
@pytest.mark.parametrize("way", ["file", "pickle", "copy"])
@every_learner
def test_goes_on_to_the_bit(name, way, tmp_path):
    clf = streamed(name, slice(0, 90))
    clf.query_one(X[90])
    if way == "file":
        save(clf, tmp_path / "model")
        other = load(tmp_path / "model")
    else:
        other = pickle.loads(pickle.dumps(clf)) if way == "pickle" else copy.deepcopy(clf)
    for each in (clf, other):
        each.learn_one(X[90], LEARNERS[name][1][90])
        streamed(name, slice(91, None), each)
    assert bits_of(other) == bits_of(clf)
    assert other.accuracy_ == clf.accuracy_


def test_a_damaged_file(tmp_path):
    clf = streamed("two classes")
    sampler_in(state_of(clf)).counts[:] = (3.0, 5.0)
    save(clf, tmp_path / "model")
    with pytest.raises(ModelFileError, match="more labels than rows"):
        load(tmp_path / "model")


def test_fit_learns_all_labels_and_begins_to_count():
    clf = LabelQueries(Perceptron(random_state=0), budget=0.3, random_state=7).fit(X, two)
    alone = Perceptron(random_state=0).fit(X, two)
    np.testing.assert_array_equal(clf.decision_function(X), alone.decision_function(X))
    assert (clf.n_rows_, clf.n_queries_) == (0, 0)
    streamed("two classes", clf=clf)
    assert clf.n_rows_ == 200
    assert clf.predict(X).tolist() == clf.estimator_.predict(X).tolist()


def test_goes_on_from_what_the_learner_knows():
    known = AutoMargin().partial_fit(X[:50], two[:50], classes=["no", "yes"])
    before = known.decision_function(X).tobytes()
    clf = LabelQueries(known, budget=0.3, random_state=0)
    assert clf.decision_function(X).tobytes() == before
    streamed("mixture", slice(50, None), clf)
    assert clf.n_rows_ == 150
    assert known.decision_function(X).tobytes() == before
    np.testing.assert_array_equal(clf.predict_proba(X), clf.estimator_.predict_proba(X))


def test_another_budget_begins_to_count_anew():
    clf = streamed("two classes").set_params(budget=0.1)
    assert clf.n_rows_ == 0
    clf.query_one(X[0])
    assert clf.n_rows_ == 1
    assert clone(clf).budget == 0.1
    assert clf.set_params(clf__margin=2.0).estimator_.margin == 2.0


def test_before_the_first_row():
    clf = LabelQueries(budget=0.1, random_state=0)
    with pytest.raises(NotFittedError):
        _ = clf.n_rows_
    asked = [clf.query_one({"a": 1.0}) for _ in range(200)]
    assert asked[:50] == [True] * 50  # there is nothing to predict with
    assert sum(asked) <= 0.1 * 200 + SLACK
    assert copy.deepcopy(clf).n_rows_ == pickle.loads(pickle.dumps(clf)).n_rows_ == 200
    assert clf.predict_one({"a": 1.0}, classes=["no", "yes"]) == "yes"
    clf.learn_one({"a": 1.0}, "no", classes=["no", "yes"])
    assert clf.n_rows_ == 200


@pytest.mark.parametrize(
    ("clf", "why"),
    [
        (LabelQueries(ConformalClassifier()), "holds no other one"),
        (LabelQueries(MaxMargin()), "needs all rows at once"),
        (LabelQueries("perceptron"), "must be a learner of maxmargin"),
        (LabelQueries(budget=0.0), "'budget' parameter"),
        (LabelQueries(budget=1.5), "'budget' parameter"),
        (LabelQueries(b=-1.0), "'b' parameter"),
        (LabelQueries(Perceptron(margin=-1.0)), "'margin' parameter"),
    ],
    ids=str,
)
def test_parameters_that_cannot_be(clf, why):
    with pytest.raises((ValueError, AttributeError), match=why):
        clf.partial_fit(X, two, classes=["no", "yes"])


@pytest.mark.parametrize("bad", ["label", "NaN", "width", "two labels"])
def test_bad_rows_change_nothing(bad):
    clf = streamed("mixture", slice(0, 100))
    before, rows, y = bits_of(clf), X.copy(), two.copy()
    if bad == "label":
        y[199] = "maybe"[:3]
    elif bad == "NaN":
        rows[199, 2] = np.nan
    elif bad == "width":
        rows = rows[:, :3]
    else:
        y = np.column_stack([noisy > 0, noisy > 1]).astype(int)
    with pytest.raises(ValueError):  # noqa: PT011
        clf.partial_fit(rows[100:], y[100:])
    assert bits_of(clf) == before


def test_only_one_pass(tmp_path):
    with pytest.raises(ValueError, match="passes=2 asks for more"):
        LabelQueries().fit_stream(tmp_path / "rows", passes=2)


def test_a_missing_label_is_refused_by_the_learner():
    clf = LabelQueries(AutoMargin(), random_state=0)
    clf.learn_one({"a": 1.0}, "yes", classes=["no", "yes"])
    with pytest.raises(ValueError, match="None"):
        clf.learn_one({"a": 1.0}, None)
