"""`progressive` of learners that ask for labels."""

import numpy as np
import pytest
from scipy import sparse

from maxmargin import AutoMargin, ConformalClassifier, LabelQueries, PassiveAggressive, Perceptron
from maxmargin.evaluate import progressive

random = np.random.default_rng(2)
X = random.normal(size=(300, 3))
y = X[:, 0] + 0.5 * random.normal(size=300) > 0.2
learner = PassiveAggressive(C=0.1)


def asking(**parameters):
    return LabelQueries(learner, budget=0.3, random_state=4, **parameters)


@pytest.mark.parametrize("delay", [0, 1, 7])
@pytest.mark.parametrize("kind", ["dense", "sparse", "dicts"])
def test_questions_are_asked_before_rows_are_learned(delay, kind):
    """As by hand: predict and ask, and learn from the answer when it comes."""
    rows = {"dense": X, "sparse": sparse.csr_matrix(X)}.get(kind)
    if rows is None:
        rows = [(dict(zip("abc", x, strict=True)), c) for x, c in zip(X.tolist(), y, strict=True)]
    given = (rows,) if kind == "dicts" else (rows, y)
    found = progressive(asking(), *given, delay=delay, step=50, classes=[False, True])
    clf, asked, wrong = asking(), [], []
    for i in range(300):
        if delay and i >= delay and asked[i - delay]:
            clf.learn_one(X[i - delay], bool(y[i - delay]), classes=[False, True])
        wrong.append(clf.predict_one(X[i], classes=[False, True]) != y[i])
        asked.append(clf.query_one(X[i]))
        if not delay and asked[i]:
            clf.learn_one(X[i], bool(y[i]), classes=[False, True])
    assert found.asked.tolist() == asked
    assert found.wrong.tolist() == wrong
    shares = np.cumsum(asked)[np.arange(49, 300, 50)] / np.arange(50, 301, 50)
    np.testing.assert_allclose(found.label_shares, shares)
    assert found.report()["label_share"] == shares[-1] == clf.label_share_


def test_a_share_of_labels():
    clf = Perceptron()
    one = progressive(clf, X, y, labels=0.2)
    assert not hasattr(clf, "classes_")
    other = progressive(LabelQueries(Perceptron(), budget=0.2, random_state=0), X, y)
    assert one.asked.tolist() == other.asked.tolist()
    assert one.mistakes.tolist() == other.mistakes.tolist()
    assert [each.name for each in (one, other)] == ["Perceptron"] * 2
    both = progressive([Perceptron(), AutoMargin()], X, y, labels=1.0)
    assert both[0].asked.all()
    assert both[0].wrong.tolist() == progressive(Perceptron(), X, y).wrong.tolist()


def test_rows_of_weight_0_are_not_asked_for():
    weight = np.where(np.arange(300) % 2, 1.0, 0.0)
    found = [progressive(asking(), X, y, sample_weight=weight, delay=delay) for delay in (0, 5)]
    for each in found:
        assert not each.asked[::2].any()
        assert each.asked[1::2].any()


def test_what_cannot_be():
    with pytest.raises(AttributeError, match="learned from all labels"):
        _ = progressive(Perceptron(), X, y).label_shares
    with pytest.raises(ValueError, match="on_drift needs all labels"):
        progressive(asking(), X, y, on_drift="alarm")
    with pytest.raises(ValueError, match="'budget' parameter"):
        progressive(Perceptron(), X, y, labels=2.0)
    with pytest.raises(ValueError, match="holds no other one"):
        progressive(ConformalClassifier(), X, y, labels=0.5)
