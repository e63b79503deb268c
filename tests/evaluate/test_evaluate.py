"""Progressive evaluation says what a loop of `predict` and `partial_fit` would say."""

from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import pytest
from extent import everything_or
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from problems import chunk_sizes, label, overlapping, three_classes
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, roc_auc_score
from sklearn.naive_bayes import GaussianNB

from maxmargin import (
    ALMA,
    AMIRA,
    NOCA,
    NORMA,
    PUMMA,
    AutoMargin,
    Forgetron,
    MaxMargin,
    PassiveAggressive,
    Perceptron,
    Projectron,
    RandomBudgetPerceptron,
    streams,
)
from maxmargin.core.array_fields import declared
from maxmargin.evaluate import progressive, progressive_run
from maxmargin.kernels.products import Products
from maxmargin.models import budget_model, budget_policies

ROWS = 300  # more than a block of kernel values
FORMS = {"dense": np.asarray, "CSR": sparse.csr_matrix}
LEARNERS = {
    "linear": Perceptron(),
    "linear with forgetting": NORMA(rate=0.3, decay=0.1, margin=0.5),
    "p-norm": ALMA(p=4.0),
    "pair": PUMMA(),
    "joint": AMIRA(),
    "joint, 1-best": AMIRA(multiclass="1-best"),
    "kernel NORMA": NORMA(kernel="rbf", gamma=0.5, rate=0.5, decay=0.05, margin=0.5),
    "kernel": PassiveAggressive(kernel="rbf", gamma=0.5, C=1.0),
    "kernel, joint": AMIRA(kernel="rbf", gamma=0.5),
    "kernel, soft margin": AMIRA(kernel="rbf", gamma=0.5, soft_margin=0.5),
    "Forgetron": Forgetron(budget=20, gamma=0.5),
    "random budget": RandomBudgetPerceptron(budget=20, gamma=0.5, random_state=0),
    "Projectron": Projectron(gamma=0.5, threshold=0.1),
    "budget, projected": AMIRA(kernel="rbf", gamma=0.5, budget=15, on_full="project"),
    "budget, soft margin": AMIRA(kernel="rbf", gamma=0.5, budget=20, soft_margin=0.5),
    "average": Perceptron(average=True),
    "components": NOCA(max_components=20),
}
FOREIGN = {
    "SGDClassifier": SGDClassifier(random_state=0),
    "GaussianNB": GaussianNB(),
}

# Not the only ones of their kinds.
FURTHER = {"linear with forgetting", "joint, 1-best", "kernel, soft margin"}
FURTHER |= {"budget, projected", "budget, soft margin"}
KINDS = [name for name in LEARNERS if name not in FURTHER]
every_learner = pytest.mark.parametrize("name", everything_or(KINDS, list(LEARNERS)))


@pytest.fixture
def _small_blocks(monkeypatch):
    """Let kernel values be computed for 40 rows at a time."""
    for kind in (budget_model.SupportStore, budget_policies.Projecting):
        declared(kind)  # read, and cached, with the real size of blocks
    monkeypatch.setattr(Products, "block", 40)
    for module in (budget_model, budget_policies):
        monkeypatch.setattr(module, "BLOCK", 40)


several_blocks = pytest.mark.usefixtures("_small_blocks")
SEVERAL = 100  # rows


class Trial(NamedTuple):
    """What a row brought, and what there was after it."""

    wrong: bool
    loss: float
    updates: int
    supports: int


def rows_of(classes, form="dense", n=ROWS):
    if classes == 2:
        X, y = overlapping(n=n, d=5, distance=2.0)
    else:
        X, y = three_classes(n=n, d=5)
        y = np.where(np.arange(n) % 10 == 7, (y + 1) % 3, y)  # some wrong labels
    X[:, 3] *= np.arange(n) % 2  # so that sparse rows have different lengths
    return FORMS[form](X), y


def says(clf, x, classes):
    """The prediction, and the outputs if there are any; a learner of nothing has outputs 0."""
    if not hasattr(clf, "classes_"):
        return classes[1 if len(classes) == 2 else 0], np.zeros(len(classes))
    if not hasattr(clf, "decision_function"):
        return clf.predict(x)[0], None
    outputs = clf.decision_function(x).ravel()
    return clf.predict(x)[0], np.array([-1.0, 1.0]) * outputs / 2 if outputs.size == 1 else outputs


def hinge(outputs, own):
    if outputs is None:
        return np.nan
    return max(0.0, 1.0 - (outputs[own] - np.delete(outputs, own).max()))


def one_by_one(clf, X, y, delay=0, weight=None):
    """Row i is learned from as soon as row ``i + delay`` is due, and at once without delay."""
    classes, learned, trials = np.unique(y), 0, []

    def learn(stop):
        nonlocal learned
        for j in range(learned, stop):
            row = slice(j, j + 1)
            if weight is None:
                clf.partial_fit(X[row], y[row], classes=classes)
            elif weight[j] > 0.0:
                clf.partial_fit(X[row], y[row], classes=classes, sample_weight=weight[row])
        learned = max(learned, stop)

    for i in range(y.size):
        learn(i - delay + 1 if delay else i)
        said, outputs = says(clf, X[i : i + 1], classes)
        if delay <= 1:
            learn(i + 1)
        trials.append(
            Trial(
                said != y[i],
                hinge(outputs, np.flatnonzero(classes == y[i])[0]),
                getattr(clf, "n_updates_", 0),
                len(getattr(clf, "support_", ())),
            )
        )
    learn(y.size)
    return trials


def assert_tells(report, trials, step):
    """The report says about each row and at each look what the trials say."""
    wrong, losses, updates, supports = map(np.array, zip(*trials, strict=True))
    n = len(trials)
    np.testing.assert_array_equal(report.wrong, wrong)
    looks = [*range(step, n, step), n]
    assert report.trials.tolist() == looks
    last = np.array(looks) - 1
    np.testing.assert_array_equal(report.mistakes, wrong.cumsum()[last])
    np.testing.assert_allclose(report.losses, losses.cumsum()[last], rtol=1e-5)
    np.testing.assert_array_equal(report.updates, updates[last])
    np.testing.assert_array_equal(report.supports, supports[last])
    assert report.accuracy == pytest.approx(1.0 - wrong.mean())


def same(a, b):
    assert a.name == b.name
    for field in ("trials", "mistakes", "updates", "supports", "wrong"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)
    np.testing.assert_allclose(a.losses, b.losses, rtol=1e-5)


def knowledge(clf):
    """What a learner would say about some rows, to tell states apart."""
    X, _ = rows_of(clf.classes_.size, n=50)
    scores = clf.predict_proba if isinstance(clf, GaussianNB) else clf.decision_function
    return scores(X)


# ---------------------------------------------------------------------------- one row after another
FEW = [*product(KINDS, [(2, "dense"), (3, "dense")]), *product(["linear", "kernel"], [(3, "CSR")])]


@several_blocks
@pytest.mark.parametrize(
    ("name", "data"), everything_or(FEW, list(product(LEARNERS, product((2, 3), FORMS))))
)
def test_progressive_is_the_loop_of_predict_and_partial_fit(name, data):
    X, y = rows_of(*data, n=SEVERAL)
    looped, clf = clone(LEARNERS[name]), clone(LEARNERS[name])
    trials = one_by_one(looped, X, y)
    assert 0 < sum(trial.wrong for trial in trials) < y.size
    report = progressive(clf, X, y, step=30)
    assert report.name == type(clf).__name__
    assert_tells(report, trials, 30)
    np.testing.assert_allclose(knowledge(clf), knowledge(looped), rtol=1e-5, atol=1e-7)


@several_blocks
@every_learner
@pytest.mark.parametrize(
    ("classes", "delay"),
    everything_or([(3, 2), (2, 7), (2, 400)], list(product((2, 3), (2, 7, 400)))),
)
def test_late_labels_wait_in_a_queue(name, classes, delay):
    X, y = rows_of(classes, n=SEVERAL)
    looped, clf = clone(LEARNERS[name]), clone(LEARNERS[name])
    trials = one_by_one(looped, X, y, delay)
    assert_tells(progressive(clf, X, y, step=30, delay=delay), trials, 30)
    np.testing.assert_allclose(knowledge(clf), knowledge(looped), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["linear", "Forgetron", "average"])
@pytest.mark.parametrize("step", [1, 30, 1000])
def test_last_look_comes_before_the_labels_that_are_still_missing(name, step):
    """Whether a look is due at the end or not."""
    X, y = rows_of(2, n=SEVERAL)
    trials = one_by_one(clone(LEARNERS[name]), X, y, delay=20)
    assert trials[-1].updates < len(y)
    assert_tells(progressive(clone(LEARNERS[name]), X, y, step=step, delay=20), trials, step)


def test_late_sparse_rows():
    X, y = rows_of(3, "CSR")
    trials = one_by_one(Perceptron(), X, y, delay=9)
    assert_tells(progressive(Perceptron(), X, y, step=64, delay=9), trials, 64)


@settings(deadline=None, max_examples=30)
@given(
    values=st.lists(st.tuples(*[st.integers(-2, 2)] * 4), min_size=4, max_size=40),
    classes=st.integers(2, 3),
    step=st.integers(1, 50),
    delay=st.integers(0, 12),
)
def test_ties_zero_rows_and_any_delay(values, classes, step, delay):
    """Small whole numbers: many outputs are exactly 0, and many rows too."""
    table = np.array(values, dtype=float)
    X, y = table[:, :3].copy(), np.abs(table[:, 3].astype(int)) % classes
    y[:classes] = range(classes)
    trials = one_by_one(Perceptron(), X, y, delay)
    assert_tells(progressive(Perceptron(), X, y, step=step, delay=delay), trials, step)


# --------------------------------------------------------------------------------- as river does it
@pytest.mark.parametrize("delay", [0, 1, 2, 7, 400])
def test_questions_and_answers_come_in_the_order_of_river(delay):
    stream = pytest.importorskip("river.stream")
    X, y = rows_of(2)
    clf, wrong = Perceptron(), np.zeros(ROWS, dtype=bool)
    questions = [({}, label) for label in y.tolist()]
    for i, _, answer in stream.simulate_qa(questions, moment=None, delay=delay or None):
        if answer is None:
            wrong[i] = says(clf, X[i : i + 1], [-1, 1])[0] != y[i]
        else:
            clf.partial_fit(X[i : i + 1], y[i : i + 1], classes=[-1, 1])
    ours = Perceptron()
    np.testing.assert_array_equal(progressive(ours, X, y, delay=delay).wrong, wrong)
    np.testing.assert_array_equal(ours.coef_, clf.coef_)


# ------------------------------------------------------------------------------------------ streams
@every_learner
@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.differing_executors])
@given(
    delay=st.sampled_from([0, 7]),
    sizes=chunk_sizes(60),
    form=st.sampled_from(everything_or(["dense"], sorted(FORMS))),
    step=st.integers(1, 70),
)
def test_any_cutting_into_blocks_gives_the_same_report(name, delay, sizes, form, step):
    X, y = rows_of(3, form, n=60)
    whole, clf = clone(LEARNERS[name]), clone(LEARNERS[name])
    expected = progressive(whole, X, y, step=step, delay=delay)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    blocks = ((X[a:b], y[a:b]) for a, b in pairwise(starts))
    same(progressive(clf, blocks, step=step, delay=delay, classes=[0, 1, 2]), expected)
    np.testing.assert_allclose(knowledge(clf), knowledge(whole), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "name",
    ["linear", "joint", "Forgetron", *everything_or([], ["p-norm", "kernel NORMA"])],
)
@pytest.mark.parametrize("delay", [0, 7])
def test_rows_may_be_dictionaries(name, delay):
    X, y = rows_of(3)
    rows = ((dict(zip("abcde", x, strict=True)), c) for x, c in zip(X.tolist(), y, strict=True))
    report = progressive(clone(LEARNERS[name]), rows, step=70, delay=delay, classes=[0, 1, 2])
    expected = progressive(clone(LEARNERS[name]), X, y, step=70, delay=delay)
    for field in ("trials", "mistakes", "updates", "supports", "wrong"):
        np.testing.assert_array_equal(getattr(report, field), getattr(expected, field))


def test_blocks_of_no_rows_are_passed_over():
    X, y = rows_of(2)
    blocks = [(X[:0], y[:0]), (X[:100], y[:100]), (X[:0], y[:0]), (X[100:], y[100:])]
    report = progressive(Perceptron(), iter(blocks), step=100, classes=[-1, 1])
    same(report, progressive(Perceptron(), X, y, step=100))


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # one class so far
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_several_learners_read_a_stream_once():
    X, y = rows_of(3)
    sizes, read = [1, 99, 64, 136], []

    def blocks():
        start = 0
        for size in sizes:
            read.append(size)
            yield X[start : start + size], y[start : start + size]
            start += size

    learners = [clone(LEARNERS[name]) for name in ("linear", "joint", "Forgetron", "average")]
    learners.append(GaussianNB())
    reports = progressive(learners, blocks(), step=50, delay=3, classes=[0, 1, 2])
    assert read == sizes
    for clf, report in zip(learners, reports, strict=True):
        same(report, progressive(clone(clf), X, y, step=50, delay=3))
    (alone,) = progressive((Perceptron(),), X, y)
    same(alone, progressive(Perceptron(), X, y))


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # one class so far
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("delay", [0, 5])
def test_learners_of_scikit_learn(name, classes, delay):
    X, y = rows_of(classes, n=50)
    weight = weights_of(50) if classes == 2 else None
    looped, clf = clone(FOREIGN[name]), clone(FOREIGN[name])
    trials = one_by_one(looped, X, y, delay, weight)
    report = progressive(clf, X, y, step=20, delay=delay, sample_weight=weight)
    assert_tells(report, trials, 20)
    np.testing.assert_array_equal(knowledge(clf), knowledge(looped))


@pytest.mark.parametrize("clf", [Perceptron(), NOCA(), SGDClassifier(random_state=0)], ids=label)
def test_labels_of_any_kind(clf):
    X, y = rows_of(3, n=90)
    named = np.array(["a", "b", "c"])[y]
    same(progressive(clone(clf), X, named), progressive(clone(clf), X, y))
    lists = progressive(clone(clf), X.tolist(), named.tolist())
    same(lists, progressive(clone(clf), X, y))


@pytest.mark.parametrize("name", ["linear", "joint", "kernel NORMA", "Projectron", "average"])
@pytest.mark.parametrize("delay", [0, 7])
def test_goes_on_from_what_the_learner_knows(name, delay):
    X, y = rows_of(3)
    looped, clf = (clone(LEARNERS[name]).partial_fit(X[:200], y[:200], [0, 1, 2]) for _ in "12")
    trials = one_by_one(looped, X[200:], y[200:], delay)
    # No need to name the classes, nor must all occur.
    report = progressive(clf, iter([(X[200:], y[200:])]), step=30, delay=delay)
    assert_tells(report, trials, 30)
    np.testing.assert_allclose(knowledge(clf), knowledge(looped), rtol=1e-5, atol=1e-7)
    some = y[:100] != 2
    progressive(clf, X[:100][some], y[:100][some])
    assert clf.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("stream", [(), iter(())])
@pytest.mark.parametrize("delay", [0, 7])
def test_empty_stream(stream, delay):
    clf = Perceptron()
    report = progressive(clf, stream, delay=delay, classes=[0, 1])
    assert report.wrong.size == 0
    assert report.trials.tolist() == report.mistakes.tolist() == report.updates.tolist() == [0]
    assert np.isnan(report.accuracy)
    assert not hasattr(clf, "classes_")
    X, y = rows_of(2)
    fitted = Perceptron(random_state=0).fit(X, y)
    before = fitted.coef_.copy()
    progressive(fitted, X[:0], y[:0], delay=delay)
    np.testing.assert_array_equal(fitted.coef_, before)


# ------------------------------------------------------------------------------------------ weights
def weights_of(n):
    """Of which some are 0, and the first ones are not."""
    weight = np.random.default_rng(3).choice([0.0, 0.5, 1.0, 3.0], n)
    weight[:4] = 2.0
    return weight


@several_blocks
@pytest.mark.parametrize("name", ["linear", "joint", "kernel", "Forgetron", "average"])
@pytest.mark.parametrize(("classes", "delay"), [(2, 0), (3, 7)])
def test_rows_are_learned_with_their_weights_and_count_once(name, classes, delay):
    X, y = rows_of(classes, n=SEVERAL)
    weight = weights_of(SEVERAL)
    looped, clf = clone(LEARNERS[name]), clone(LEARNERS[name])
    trials = one_by_one(looped, X, y, delay, weight)
    report = progressive(clf, X, y, step=30, delay=delay, sample_weight=weight)
    assert_tells(report, trials, 30)
    assert report.weighted
    np.testing.assert_allclose(knowledge(clf), knowledge(looped), rtol=1e-5, atol=1e-7)
    without = clone(LEARNERS[name])
    assert not progressive(without, X, y, delay=delay).weighted
    assert not np.allclose(knowledge(without), knowledge(looped))


@pytest.mark.parametrize("delay", [0, 7])
def test_an_iterable_may_give_weights_behind(delay):
    X, y = rows_of(2)
    weight = weights_of(ROWS)
    expected = progressive(Perceptron(), X, y, delay=delay, sample_weight=weight)
    options = {"classes": [-1, 1], "delay": delay}
    blocks = [(X[a:b], y[a:b], weight[a:b]) for a, b in pairwise([0, 70, 71, 300])]
    same(progressive(Perceptron(), blocks, **options), expected)
    rows = [dict(zip("abcde", x, strict=True)) for x in X.tolist()]
    named = progressive(Perceptron(), zip(rows, y, weight, strict=True), **options)
    np.testing.assert_array_equal(named.wrong, expected.wrong)
    np.testing.assert_array_equal(named.updates, expected.updates)


def test_late_rows_with_and_without_weights():
    X, y = rows_of(2)
    weight = np.concatenate([np.ones(100), np.full(200, 3.0)])
    blocks = [(X[:100], y[:100]), (X[100:], y[100:], weight[100:])]
    mixed = progressive(PassiveAggressive(C=0.1), blocks, delay=20, classes=[-1, 1])
    whole = progressive(PassiveAggressive(C=0.1), X, y, delay=20, sample_weight=weight)
    same(mixed, whole)


@pytest.mark.parametrize("weight", [[1.0] * 299, [-1.0] * 300, [np.nan] * 300, "heavy"])
def test_bad_weights_leave_the_learner_as_it_was(weight):
    X, y = rows_of(2)
    clf = Perceptron()
    with pytest.raises(ValueError, match="sample_weight"):
        progressive(clf, X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight goes with y"):
        progressive(clf, [(X, y)], sample_weight=np.ones(300), classes=[-1, 1])
    assert not hasattr(clf, "classes_")


# ------------------------------------------------------------------------------- sources and files
def test_sources_and_paths(tmp_path):
    X, y = rows_of(2)
    lines = (
        f"{label} {' '.join(f'{k}:{v!r}' for k, v in enumerate(x, 1) if v)}\n"
        for x, label in zip(X.tolist(), y, strict=True)
    )
    path = tmp_path / "rows.svm"
    path.write_text("".join(lines))
    expected = progressive(Perceptron(), X, y)
    for stream in (path, str(path), streams.open(path, block_size=1000), streams.open(X, y)):
        same(progressive(Perceptron(), stream), expected)
    np.save(tmp_path / "X.npy", X)
    same(progressive(Perceptron(), tmp_path / "X.npy", y), expected)
    weight = weights_of(ROWS)
    weighted = progressive(Perceptron(), streams.open(X, y, weight=weight))
    same(weighted, progressive(Perceptron(), X, y, sample_weight=weight))
    with pytest.raises(ValueError, match="has no labels"):
        progressive(Perceptron(), streams.open(X))


def test_a_pipe_whose_rows_become_wider(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 1:-1\n" * 50 + "1 1:1 9:1\n")
    with (tmp_path / "rows.svm").open("rb") as file:
        source = streams.open(file, block_size=100)
        with pytest.raises(ValueError, match="rows have become wider"):
            progressive(Perceptron(), source)


# ------------------------------------------------------------------------------- looking at reports
@pytest.mark.parametrize("name", ["linear", "average", "Forgetron"])
@pytest.mark.parametrize("classes", [2, 3])
def test_report_says_what_scikit_learn_says_of_the_predictions(name, classes):
    X, y = rows_of(classes)
    labels, looped = np.unique(y), clone(LEARNERS[name])
    said, outputs = [], []
    for i in range(ROWS):
        label, scores = says(looped, X[i : i + 1], labels)
        said.append(label)
        outputs.append(scores[-1] - scores[0])
        looped.partial_fit(X[i : i + 1], y[i : i + 1], classes=labels)
    found = progressive(clone(LEARNERS[name]), X, y, step=77)
    np.testing.assert_array_equal(found.y_true, y)
    np.testing.assert_array_equal(found.y_pred, said)
    if classes == 2:
        np.testing.assert_allclose(found.y_score, outputs, rtol=1e-9, atol=1e-12)
    else:
        assert found.y_score is None
    report = found.report()
    np.testing.assert_array_equal(found.confusion, confusion_matrix(y, said))
    assert report["confusion"] == found.confusion.tolist()
    assert report["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, said))
    assert report["largest_class"] == pytest.approx(
        np.unique(y, return_counts=True)[1].max() / ROWS
    )
    assert report["repeating"] == pytest.approx(np.sum(y[1:] == y[:-1]) / ROWS)
    if classes == 2:
        assert report["auc"] == pytest.approx(roc_auc_score(y == labels[1], outputs))
    else:
        assert report["auc"] is None


def test_scores_are_kept_up_to_a_limit(monkeypatch):
    X, y = rows_of(2)
    monkeypatch.setattr(progressive_run, "MOST_SCORES", 200)
    assert progressive(Perceptron(), X[:200], y[:200]).report()["auc"] is not None
    assert progressive(Perceptron(), X, y).report()["auc"] is None
    for one in progressive([Perceptron(), ALMA()], X[:200], y[:200]):  # which share it
        assert one.report()["auc"] is None


def test_report_of_nothing():
    report = progressive(Perceptron(), (), classes=[0, 1]).report()
    assert (report["rows"], report["auc"], report["confusion"]) == (0, None, [[0, 0], [0, 0]])
    assert np.isnan([report["accuracy"], report["largest_class"], report["repeating"]]).all()
    with pytest.raises(ValueError, match="window must be at least 1"):
        progressive(Perceptron(), *rows_of(2)).recent_accuracy(0)


@given(window=st.integers(1, 400), step=st.integers(1, 400))
@settings(deadline=None, max_examples=30)
def test_recent_accuracy_is_that_of_a_window(window, step):
    X, y = rows_of(2)
    report = progressive(Perceptron(), X, y, step=step)
    naive = [1.0 - report.wrong[max(0, t - window) : t].mean() for t in report.trials]
    np.testing.assert_allclose(report.recent_accuracy(window), naive, atol=1e-12)


# ---------------------------------------------------------------------------------------- bad input
BAD_CALLS = {
    "no labels": (lambda X, y: ((X,), {}), "needs y"),
    "no sparse labels": (lambda X, y: ((sparse.csr_matrix(X),), {}), "needs y"),
    "step 0": (lambda X, y: ((X, y), {"step": 0}), "step must be a whole number of at least 1"),
    "half a step": (lambda X, y: ((X, y), {"step": 2.5}), "step must be a whole number"),
    "delay -1": (lambda X, y: ((X, y), {"delay": -1}), "delay must be a whole number of at least"),
    "half a delay": (lambda X, y: ((X, y), {"delay": 0.5}), "delay must be a whole number"),
    "too few labels": (lambda X, y: ((X, y[1:]), {}), "inconsistent numbers of samples"),
    "too many labels": (lambda X, y: ((X[1:], y), {}), "inconsistent numbers of samples"),
    "NaN": (
        lambda X, y: ((np.where(np.arange(60)[:, None] == 9, np.nan, X), y), {}),
        "contains NaN",
    ),
    "another width": (lambda X, y: ((X[:, 1:], y), {}), "features"),
    "unknown label": (lambda X, y: ((X, np.where(y == 1, 7, y)), {}), "not among the classes"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
@pytest.mark.parametrize("name", ["linear", "joint", "kernel", "Forgetron", "average"])
@pytest.mark.parametrize("delay", [0, 7])
def test_bad_input_leaves_the_learner_as_it_was(case, name, delay):
    X, y = rows_of(3)
    clf = clone(LEARNERS[name]).partial_fit(X[:100], y[:100], [0, 1, 2])
    before, updates = knowledge(clf), clf.n_updates_
    make, message = BAD_CALLS[case]
    arguments, options = make(X[100:160], y[100:160])
    with pytest.raises(ValueError, match=message):
        progressive(clf, *arguments, **{"delay": delay, **options})
    np.testing.assert_array_equal(knowledge(clf), before)
    assert clf.n_updates_ == updates
    report = progressive(clf, X[100:], y[100:], delay=delay)  # and it still works
    assert report.wrong.size == ROWS - 100


@pytest.mark.parametrize("clf", [Perceptron(), NOCA(), SGDClassifier(random_state=0)], ids=label)
@pytest.mark.parametrize("delay", [0, 7])
def test_classes_of_an_iterable_must_be_named(clf, delay):
    X, y = rows_of(2)
    clf = clone(clf)
    with pytest.raises(ValueError, match="classes must be passed"):
        progressive(clf, iter([(X, y)]), delay=delay)
    assert not hasattr(clf, "classes_")


def test_what_is_no_learner_of_streams():
    X, y = rows_of(2)
    with pytest.raises(TypeError, match=r"got the class AutoMargin; pass AutoMargin\(\)"):
        progressive(AutoMargin, X, y)
    with pytest.raises(TypeError, match=r"MaxMargin has not both\. For streams use AutoMargin"):
        progressive([Perceptron(), MaxMargin()], X, y)


def test_label_that_was_not_named():
    X, y = rows_of(3)
    clf = Perceptron()
    with pytest.raises(ValueError, match=r"not among the classes \[0, 1\]: 2"):
        progressive(clf, iter([(X, y)]), classes=[0, 1])
    assert not hasattr(clf, "classes_")


def test_earlier_blocks_are_learned_when_a_later_one_is_bad():
    X, y = rows_of(2)
    clf = Perceptron()
    blocks = [(X[:100], y[:100]), (X[100:], np.full(200, 5))]
    with pytest.raises(ValueError, match="not among the classes"):
        progressive(clf, blocks, classes=[-1, 1])
    expected = Perceptron().partial_fit(X[:100], y[:100], [-1, 1])
    np.testing.assert_array_equal(clf.coef_, expected.coef_)
