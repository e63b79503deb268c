"""Whatever stops a call, at whatever line, leaves the learner as it was or as it would have become.

A tracer raises at lines of this package, one in each run. In `make test` these are a few lines of
each call, others for each error. In `make test-all` these are all lines, each of them when it is
run for the first, the second and the last time.
"""

import copy
import warnings
from typing import Any

import numpy as np
import pytest
from common.kinds import KINDS, kind
from extent import EVERYTHING
from persistence.states import known_to
from scipy import sparse
from sklearn.base import clone
from tracer import Tracer

from maxmargin import (
    AMIRA,
    NOCA,
    PUMMA,
    AutoMargin,
    Forgetron,
    MaxMargin,
    Perceptron,
    RandomBudgetPerceptron,
)
from maxmargin.models.resizing import MOST_COPIED_WEIGHTS

pytestmark = pytest.mark.compiled

ERRORS = [KeyboardInterrupt, MemoryError]
POINTS = 7  # in each call, for each error

random = np.random.default_rng(3)
X = random.normal(size=(24, 3))
y = np.where(X[:, 0] + 0.2 * X[:, 1] > 0.1, "yes", "no")
WIDER = np.column_stack([X, X[:, :1] - 0.3])
NAMED = [dict(zip("abc", row, strict=True)) for row in X.tolist()]


def made(Estimator, **more):
    parameters = {"max_iter": 2, "random_state": 0, "budget": 4, "gamma": 0.5, "warm_start": True}
    known = Estimator().get_params()
    parameters = {name: value for name, value in parameters.items() if name in known}
    if known.get("budget", 0) is None or "budget" not in known:
        parameters.pop("budget", None)
    return Estimator(**parameters | more)


def streamed(Estimator, **more):
    clf = made(Estimator, **more)
    return clf.partial_fit(X[:15], y[:15], classes=["no", "yes"])


def grown(Estimator):
    return made(Estimator).partial_fit(X[:15], y[:15], grow=True)


def met(Estimator):
    clf = made(Estimator)
    for row, label in zip(NAMED[:6], y[:6], strict=True):
        clf.learn_one(row, label, classes=["no", "yes"])
    return clf


def fitted(Estimator):
    return made(Estimator).fit(X, y)


# What there is before, and what is called.
CALLS = {
    "partial_fit": (streamed, lambda clf: clf.partial_fit(X[15:], y[15:])),
    "partial_fit of one row": (streamed, lambda clf: clf.partial_fit(X[15:16], y[15:16])),
    "the first partial_fit": (made, lambda clf: clf.partial_fit(X, y, classes=["no", "yes"])),
    "partial_fit that grows": (grown, lambda clf: clf.partial_fit(WIDER[15:], y[15:], grow=True)),
    "a new class": (grown, lambda clf: clf.partial_fit(X[:9], ["maybe"] * 9, grow=True)),
    "learn_one": (met, lambda clf: clf.learn_one(NAMED[7], y[7])),
    "learn_one of a new name": (met, lambda clf: clf.learn_one({"b": 1.0, "d": 2.0}, "yes")),
    "learn_one, dense": (streamed, lambda clf: clf.learn_one(X[16], y[16])),
    "fit": (made, lambda clf: clf.fit(X, y)),
    "fit again": (fitted, lambda clf: clf.fit(X, y)),
    "predict": (fitted, lambda clf: clf.predict(X) is None or clf),
    "certificate_": (fitted, lambda clf: clf.certificate_ is None or clf),
}
# A mixture can neither grow nor learn from single rows. Neither it nor a vote proves anything.
WITHOUT = {
    NOCA: {"grow", "class", "learn_one", "certificate_", "again"},
    KINDS["bisection"]: {"partial_fit", "class", "learn_one", "again"},
    KINDS["vote"]: {"certificate_"},
    AutoMargin: {"certificate_"},
}


def is_possible(Estimator, call):
    if CALLS[call][0] is grown and made(Estimator).get_params().get("multiclass", "ovr") != "ovr":
        return False
    return not any(word in call for word in WITHOUT.get(Estimator, ()))


@kind
class HingeMaxMargin(MaxMargin):
    loss: str = "hinge"


@kind
class KernelMaxMargin(MaxMargin):
    loss: str = "hinge"
    kernel: Any = "rbf"


@kind
class ChoosingMaxMargin(MaxMargin):
    kernel: Any = "rbf"
    soft_margin: Any = "auto"
    calibration: Any = "loo"


EXACT = [HingeMaxMargin, KernelMaxMargin, ChoosingMaxMargin]

CASES = [
    (Estimator, call)
    for Estimator in KINDS.values()
    for call in CALLS
    if is_possible(Estimator, call)
]
CASES += [(each, call) for each in EXACT for call in ("fit", "fit again", "predict")]


def traced(run, clf, *stop):
    """The tracer of a call, which stops it at a line or sees it end."""
    with Tracer(*stop) as tracer:
        run(clf)
    return tracer


def points(dry, error, most=POINTS):
    """Numbers of lines at which to stop a call that was traced."""
    if EVERYTHING:
        return dry.turns()
    if dry.lines <= most:
        return range(1, dry.lines + 1)
    random = np.random.default_rng([dry.lines, ERRORS.index(error)])
    return np.unique(random.integers(1, dry.lines + 1, most)).tolist()


def knowledge(clf):
    """All that would be written to a file; what is computed on being asked is asked for first."""
    if hasattr(clf, "classes_"):
        clf.predict(X if clf.n_features_in_ == 3 else WIDER)
        getattr(clf, "certificate_", None)
    return known_to(clf.__learned__())


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    ("Estimator", "call"), CASES, ids=[f"{kind.__name__}-{call}" for kind, call in CASES]
)
def test_a_call_is_whole_or_not_at_all(Estimator, call, error):
    make, run = CALLS[call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = make(Estimator)
        before, control = knowledge(start), copy.deepcopy(start)
        run(control)  # so that nothing is compiled, nor prepared once and for all, below
        after = knowledge(control)
        again = knowledge(run(copy.deepcopy(control)))
        for point in points(traced(run, copy.deepcopy(start)), error):
            clf = copy.deepcopy(start)
            with pytest.raises(error, match="stopped"):
                traced(run, clf, point, error("stopped"))
            found = knowledge(clf)
            if found == after:
                assert knowledge(run(clf)) == again, point
            elif found == before or not ("fit" in call and "partial" not in call):
                # As before, at least in all that is ever read.
                assert knowledge(run(clf)) == after, point
            else:  # a fit that was interrupted has learned from some of its rows
                assert error is KeyboardInterrupt, point
                assert np.isfinite(clf.decision_function(X)).all()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("learner", [Perceptron(), PUMMA()], ids=["alone", "in pairs"])
def test_wide_models_learn_in_place_from_all_rows_or_none(learner, error):
    width = MOST_COPIED_WEIGHTS // 5
    columns = np.random.default_rng(0).integers(width, size=24 * 3)
    rows = sparse.csr_matrix((X.ravel(), columns, 3 * np.arange(25)), (24, width))
    labels, few = np.arange(24) % 6, slice(20, 24)
    start = clone(learner).partial_fit(rows[:20], labels[:20], classes=range(6))

    def run(clf):
        clf.partial_fit(rows[few], labels[few])

    def known(clf):
        return known_to((clf.coef_, clf.intercept_, clf.n_updates_, clf.certificate_.bound))

    before, control = known(start), copy.deepcopy(start)
    model = control._state.model
    run(control)
    assert control._state.model is model
    after = known(control)
    seen = []
    for point in points(traced(run, copy.deepcopy(start)), error, 30):
        clf = copy.deepcopy(start)
        with pytest.raises(error, match="stopped"):
            traced(run, clf, point, error("stopped"))
        seen.append(known(clf))
        assert seen[-1] in (before, after), point
    assert before in seen
    assert after in seen


@pytest.mark.parametrize("make", [Forgetron, RandomBudgetPerceptron])
def test_a_row_that_takes_the_slot_of_another_is_learned_or_not(make):
    def ready():
        clf = made(make, budget=2)
        for row, label in zip(NAMED, y, strict=True):
            clf.learn_one(row, label, classes=["no", "yes"])
        return clf

    rows, labels = [NAMED[3], NAMED[5]], [["no", "yes"][label == "no"] for label in y[[3, 5]]]
    start, control = ready(), ready()
    before, updates = knowledge(start), control.n_updates_
    after = knowledge(control.learn_one(rows[0], labels[0]))
    assert control.n_updates_ > updates
    again = knowledge(control.learn_one(rows[1], labels[1]))
    clf = ready()
    with Tracer() as dry:
        clf.learn_one(rows[0], labels[0])
    seen = []
    chosen = range(1, dry.lines + 1)
    for point in sorted({*points(dry, KeyboardInterrupt, 40), *chosen[-60:]}):
        clf = ready()
        with pytest.raises(KeyboardInterrupt), Tracer(point, KeyboardInterrupt("stopped")):
            clf.learn_one(rows[0], labels[0])
        seen.append(knowledge(copy.deepcopy(clf)))
        assert seen[-1] in (before, after), point
        if seen[-1] == before:
            clf.learn_one(rows[0], labels[0])
        assert knowledge(clf.learn_one(rows[1], labels[1])) == again, point
    assert before in seen
    assert after in seen


@pytest.mark.parametrize("Estimator", [Perceptron, AMIRA, NOCA])
def test_calls_that_run_to_their_end_are_not_disturbed(Estimator):
    clf = made(Estimator)
    with Tracer() as lines:
        clf.partial_fit(X, y, classes=["no", "yes"])
    assert lines.lines > 20
    assert known_to(clf) == known_to(made(Estimator).partial_fit(X, y, classes=["no", "yes"]))


TABLE = [
    {"n": None if k % 5 == 1 else 1.5 * k, "c": f"v{k % (k // 6 + 2)}", "t": "so good" * (k % 3)}
    for k in range(24)
]
KINDS_OF_COLUMNS = {"n": "number", "c": "category", "t": "text"}
CALLS_WITH_A_RECIPE = {
    "partial_fit": lambda clf: clf.partial_fit(TABLE[15:], y[15:]),
    "learn_one": lambda clf: clf.learn_one(TABLE[20], y[20]),
    "fit_stream": lambda clf: clf.fit_stream(list(zip(TABLE[15:], y[15:], strict=True))),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("call", CALLS_WITH_A_RECIPE)
def test_a_recipe_learns_with_its_learner_or_not_at_all(call, error):
    pytest.importorskip("pyarrow")
    from maxmargin.streams import Recipe

    run = CALLS_WITH_A_RECIPE[call]
    recipe = Recipe(KINDS_OF_COLUMNS, hash_bits=6, max_categories=8)
    first = list(zip(TABLE[:15], y[:15], strict=True))
    start = Perceptron(warm_start=True).fit_stream(first, recipe=recipe)

    def known(clf):
        return known_to((clf.coef_, clf.intercept_, clf.n_updates_)), repr(clf.recipe_.tree())

    before, control = known(start), copy.deepcopy(start)
    run(control)
    after = known(control)
    assert before[1] != after[1]
    seen = []
    for point in points(traced(run, copy.deepcopy(start)), error, 40):
        clf = copy.deepcopy(start)
        with pytest.raises(error, match="stopped"):
            traced(run, clf, point, error("stopped"))
        seen.append(known(clf))
        assert seen[-1] in (before, after), point
        if seen[-1] == before:
            assert known(run(clf)) == after, point
    assert before in seen


# Rows one by one, for which a fast path is made ready.
WAYS = {
    "partial_fit": (streamed, lambda clf, k: clf.partial_fit(X[k : k + 1], y[k : k + 1])),
    "learn_one, dense": (streamed, lambda clf, k: clf.learn_one(X[k], y[k])),
    "learn_one": (met, lambda clf, k: clf.learn_one(NAMED[k], y[k])),
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("Estimator", [Perceptron, PUMMA, Forgetron])
def test_a_row_by_the_fast_path_is_learned_or_not(Estimator, way, error):
    make, learn = WAYS[way]
    is_direct = Estimator in (Perceptron, PUMMA)
    if way == "partial_fit" and not is_direct:
        pytest.skip("it has a fast path for learn_one alone")

    def ready():
        clf = make(Estimator)
        for k in range(15, 18):
            learn(clf, k)
        return clf

    start, control = ready(), ready()
    before, after = knowledge(start), knowledge(learn(control, 18))
    again = knowledge(learn(control, 19))
    clf = ready()
    with Tracer() as dry:
        learn(clf, 18)
    assert dry.lines < (60 if is_direct else 2000)
    seen = []
    chosen = range(1, dry.lines + 1)
    if not is_direct:  # the row counts from one of the first or of the last lines on
        chosen = sorted({*points(dry, error, 60), *chosen[:10], *chosen[-10:]})
    for point in chosen:
        clf = ready()
        with pytest.raises(error), Tracer(point, error("stopped")):
            learn(clf, 18)
        seen.append(knowledge(copy.deepcopy(clf)))
        assert seen[-1] in (before, after), point
        if seen[-1] == before:
            learn(clf, 18)
        assert knowledge(learn(clf, 19)) == again, point
    assert before in seen
    assert after in seen
