"""Drift detectors in `progressive`: where they speak up the learner changes, at that very row."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier

from maxmargin import NORMA, PassiveAggressive, Perceptron
from maxmargin.evaluate import Drift, progressive


class Streak:
    """So many mistakes in a row."""

    def __init__(self, length=4):
        self.length, self.count, self.drift_detected = length, 0, False

    def update(self, wrong):
        self.count = self.count % self.length + 1 if wrong else 0
        self.drift_detected = self.count == self.length


def stream(rows=1500, width=6, switches=3):
    random = np.random.default_rng(0)
    X = random.standard_normal((rows, width))
    weights = random.standard_normal((switches, width))
    part = np.arange(rows) * switches // rows
    return X, ((X * weights[part]).sum(axis=1) > 0).astype(int)


def by_hand(clf, X, y, asked):
    """The same, one row after another."""
    detector, wrong, drifts = asked.detector, [], []
    for i in range(y.size):
        row = slice(i, i + 1)
        said = clf.predict(X[row])[0] if hasattr(clf, "classes_") else 1
        wrong.append(said != y[i])
        clf.partial_fit(X[row], y[row], classes=[0, 1])
        detector.update(int(wrong[i]))
        if detector.drift_detected:
            drifts.append(i + 1)
            if callable(asked.action):
                asked.action(clf)
            else:
                clf = clone(clf)
    return clf, np.array(wrong), drifts


def faster(clf):
    clf.set_params(rate=2.0 * clf.rate)


CASES = {
    "reset": (PassiveAggressive(C=0.1), "reset"),
    "function": (NORMA(rate=0.01, decay=0.01), faster),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_as_row_by_row(case):
    learner, action = CASES[case]
    X, y = stream()
    wanted, wrong, drifts = by_hand(clone(learner), X, y, Drift(Streak(), action))
    clf = clone(learner)
    found = progressive(clf, X, y, on_drift=Drift(Streak(), action))
    assert len(drifts) >= 1
    assert found.drifts.tolist() == drifts
    assert np.array_equal(found.wrong, wrong)
    assert np.array_equal(clf.coef_, wanted.coef_)
    assert (np.diff(found.updates) >= 0).all()


@pytest.mark.parametrize("kind", ["another library", "dicts"])
def test_other_ways_of_rows(kind):
    X, y = stream(600)
    learner, rows = PassiveAggressive(C=0.1), (X, y)
    if kind == "another library":
        learner = SGDClassifier(random_state=0, shuffle=False)
    if kind == "dicts":
        names = [dict(enumerate(x.tolist())) for x in X]
        rows = (list(zip(names, y.tolist(), strict=True)), None)
    wanted, wrong, drifts = by_hand(clone(learner), X, y, Drift(Streak()))
    clf = clone(learner)
    found = progressive(clf, *rows, classes=[0, 1], on_drift=Streak())
    assert len(drifts) >= 1
    assert found.drifts.tolist() == drifts
    if kind == "another library":  # what it says before it has seen anything is not the same
        assert np.array_equal(found.wrong[1:], wrong[1:])
    else:
        assert np.array_equal(found.wrong, wrong)
    assert np.allclose(clf.coef_, wanted.coef_, rtol=1e-12)


def test_learners_have_detectors_of_their_own():
    X, y = stream()
    detector = Streak()
    learners = [PassiveAggressive(C=0.1), Perceptron()]
    both = progressive(learners, X, y, on_drift=detector)
    for learner, found in zip(learners, both, strict=True):
        alone = progressive(clone(learner), X, y, on_drift=Streak())
        assert np.array_equal(found.drifts, alone.drifts)
        assert np.array_equal(found.wrong, alone.wrong)
    assert detector.count == 0
    assert progressive(Perceptron(), X, y).drifts.size == 0


def test_a_learner_that_knows_its_classes_can_forget_them():
    X, y = stream()
    clf = PassiveAggressive(C=0.1).partial_fit(X[:10], y[:10], classes=[0, 1])
    blocks = [(X[k : k + 100], y[k : k + 100]) for k in range(0, 1500, 100)]
    assert progressive(clf, blocks, on_drift=Streak()).drifts.size >= 1


@pytest.mark.parametrize("name", ["ADWIN", "PageHinkley", "DDM", "HDDMA", "HDDMW"])
def test_detectors_of_river(name):
    drift = pytest.importorskip("river.drift")
    detector = getattr(drift, name, None) or getattr(drift.binary, name)
    # Two streams that are easy to learn, and the opposite of each other.
    random = np.random.default_rng(1)
    X = random.standard_normal((4000, 3))
    y = (X[:, 0] > 0) ^ (np.arange(4000) >= 2000)
    found = progressive(PassiveAggressive(C=0.01), X, y, on_drift=detector())
    first = found.drifts[found.drifts > 2000]
    assert first.size
    assert first[0] < 2400


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda: 3, 'must be "alarm", a drift detector'),
        (lambda: Drift(Streak(), "forget"), "action must be 'alarm' or 'reset', or a function"),
    ],
)
def test_refusals(asked, message):
    with pytest.raises((TypeError, ValueError), match=message):
        progressive(Perceptron(), *stream(50), on_drift=asked())


def test_late_labels_cannot_be_watched():
    with pytest.raises(ValueError, match="on_drift needs labels without delay"):
        progressive(Perceptron(), *stream(50), delay=2, on_drift="alarm")
