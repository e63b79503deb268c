"""A row that is refused leaves nothing behind: neither names nor columns nor a way to learn."""

import copy

import numpy as np
import pytest

from maxmargin import AMIRA, PUMMA, ROMMA, Perceptron

pytestmark = pytest.mark.filterwarnings("ignore:The row has none of the columns")

LEARNERS = [Perceptron(), ROMMA(), PUMMA(), AMIRA()]
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: type(each).__name__)


def rows(names, seed=0, n=12):
    random = np.random.default_rng(seed)
    return [dict(zip(names, row, strict=True)) for row in random.normal(size=(n, len(names)))]


def learn(clf, some):
    for k, row in enumerate(some):
        clf.learn_one(row, k % 2, classes=[0, 1])
    return clf


def assert_same(clf, other):
    assert clf.columns_ == other.columns_
    assert clf.n_features_in_ == other.n_features_in_
    np.testing.assert_array_equal(clf.coef_, other.coef_)
    np.testing.assert_array_equal(clf.intercept_, other.intercept_)


@every_learner
@pytest.mark.parametrize("known", ["ab", "abcdefgh"], ids=["no room", "room"])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ({"a": 1.0, "new": 2.0, "newer": 1.0}, 9),
        ({"a": 1.0, "new": np.nan}, 1),
        ({"new": None, "a": 1.0}, 1),
        ({"newest": "text", "a": np.inf}, 1),
        ({"new": 1e300}, 0),
    ],
)
def test_what_comes_after_is_as_if_it_had_not_been(learner, known, x, y):
    clf = learn(copy.deepcopy(learner), rows(known))
    control = copy.deepcopy(clf)
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"y is 9|NaN|expected a finite number or text|too large"
        ):
            clf.learn_one(x, y)
        assert_same(clf, control)
    # The same names in another order, and others in their place.
    later = [{"newer": 1.0, "a": -1.0}, {"new": 2.0, "newer": 3.0}, {"other": 1.0, "a": 1.0}]
    for each in (clf, control):
        learn(each, [*later, *rows(f"{known}xyz", seed=1), {"a": 1.0, "new": 2.0, "newer": 1.0}])
    assert_same(clf, control)
    for row in (*later, *rows(known, seed=2)):
        assert clf.predict_one(row) == control.predict_one(row)


@every_learner
def test_lack_of_memory_while_growing(learner, monkeypatch):
    clf = learn(copy.deepcopy(learner), rows([f"x{k}" for k in range(1000)], n=3))
    control = copy.deepcopy(clf)
    many = dict.fromkeys([f"n{k}" for k in range(2000)], 1.0)

    def no_memory(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("maxmargin.core.array_fields.aligned_zeros", no_memory)
        with pytest.raises(MemoryError):
            clf.learn_one(many, 1)
    assert_same(clf, control)
    for each in (clf, control):
        learn(each, [{"n7": 1.0, "x3": 2.0}, many, {"x1": 1.0}])
    assert_same(clf, control)
