"""Probabilities online against those of five fits: log loss, calibration error, and what they cost.

Adult is learned in one pass in random orders, one for each seed, and asked on its test part. The
prices of electricity are learned in time order: the first four fifths, then the last fifth is
asked at once, and block by block, each learned after it was asked. Calibration errors are those of
15 bins of equal width. scikit-learn's peer is fitted to the same learner, by default: Platt's
sigmoid by five folds, and the mean of the five.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmarks.electricity import standardised
from benchmarks.harness import Comparison, Contender, Floor, Key, Report, Scale, race, seconds
from maxmargin import ALMA, AMIRA, NORMA, PassiveAggressive, Pegasos, Perceptron
from maxmargin.datasets import load_adult, load_electricity

NAME = "calibration"
QUESTION = "How good are probabilities that are learned on the way?"

MOST_ABOVE = 1.05
BINS, BLOCK = 15, 500
LEARNERS: dict[str, Any] = {
    "Perceptron, mean weights": Perceptron(average=True),
    "PA-I, C=1, mean weights": PassiveAggressive(C=1.0, average=True),
    "NORMA, mean weights": NORMA(average=True),
    "Pegasos, mean weights": Pegasos(average=True),
    "PA-I, C=0.01": PassiveAggressive(C=0.01),
    "PA-I, C=1": PassiveAggressive(C=1.0),
    "AMIRA": AMIRA(),
    "Perceptron": Perceptron(),
    "NORMA": NORMA(),
    "Pegasos": Pegasos(),
    "ALMA": ALMA(),
}
# Of which the floor is asked, on both sets, and whose time is taken.
ASKED = "Perceptron, mean weights", "PA-I, C=1, mean weights", "Pegasos, mean weights", "NORMA"
TIMED = "Perceptron, mean weights", "PA-I, C=1"
BARE, ONLINE, FIVE = "without probabilities", "calibration='online'", "CalibratedClassifierCV"


class Quality(NamedTuple):
    log_loss: float
    error: float


class Split(NamedTuple):
    """Rows to learn from, and rows to ask, with the class that has the probability."""

    X: Any
    y: np.ndarray
    others: Any
    asked: np.ndarray


def run(scale: Scale) -> Report:
    floors: list[Floor] = []
    quality: dict[Key, float] = {}
    contenders: list[Contender] = []
    skipped: dict[str, str] = {}
    for case, make in (("Adult", adult), ("electricity", electricity)):
        try:
            data = make(scale)
        except OSError as error:
            skipped[case] = str(error)
            continue
        seeds = range(scale.rounds) if case == "Adult" else range(1)
        for name, learner in LEARNERS.items():
            clf = clone(learner).set_params(max_iter=1, shuffle=case == "Adult")
            pairs = [compared(clf, data, seed) for seed in seeds]
            ours, theirs = (np.array(each) for each in zip(*pairs, strict=True))
            quality |= told(f"{case}, {name}", "online", middle(ours))
            quality |= told(f"{case}, {name}", FIVE, middle(theirs))
            if case == "electricity":
                going_on = progressive(clf, data)
                quality |= told(f"{case}, {name}", "online, learning on", going_on)
            if name in ASKED:
                for k, what in enumerate(("log loss", "calibration error")):
                    above = ours[:, k] / theirs[:, k]
                    what = f"{what} on {case} / {FIVE}'s, {name}"
                    floors.append(Floor(what, "<=", MOST_ABOVE, above.tolist()))
            if name in TIMED:
                contenders += timed(f"{case}, {name}", clf, data)
        svm = CalibratedClassifierCV(LinearSVC(random_state=0), cv=5).fit(data.X, data.y)
        quality |= told(f"{case}, LinearSVC", FIVE, reached(svm.predict_proba, data))
    values = race(contenders, scale.rounds)
    pairs = [
        Comparison(Key(case, ONLINE), Key(case, FIVE), FIVE)
        for case in dict.fromkeys(key.case for key in values)
    ]
    data = "Adult in random orders; electricity in the order of time"
    how = (
        "One pass; log loss and calibration error (15 bins) on Adult's test rows and on the last "
        "fifth of electricity, medians over the orders, smaller is better. Times are those of the "
        "processor."
    )
    return Report(NAME, data, "s", values, floors, skipped, how, pairs, quality)


def told(case: str, who: str, found: Quality) -> dict[Key, float]:
    return {
        Key(case, f"log loss, {who}"): found.log_loss,
        Key(case, f"calibration error, {who}"): found.error,
    }


def adult(scale: Scale) -> Split:
    (X, y), (others, asked) = load_adult(), load_adult("test")
    rows = scale.rows(y.size)
    return Split(X[:rows], y[:rows] == 1, others, asked == 1)


def electricity(scale: Scale) -> Split:
    X, labels = load_electricity()
    rows = scale.rows(labels.size)
    X, y, end = standardised(X[:rows]), labels[:rows] == "UP", 4 * rows // 5
    return Split(X[:end], y[:end], X[end:], y[end:])


def compared(clf: Any, data: Split, seed: int) -> tuple[Quality, Quality]:
    """Ours, and that of the peer."""
    clf = clone(clf).set_params(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one pass is what is asked for
        ours = clone(clf).set_params(calibration="online").fit(data.X, data.y)
        theirs = CalibratedClassifierCV(clf, cv=5).fit(data.X, data.y)
    return reached(ours.predict_proba, data), reached(theirs.predict_proba, data)


def progressive(clf: Any, data: Split) -> Quality:
    clf = clone(clf).set_params(calibration="online")
    clf.partial_fit(data.X, data.y, classes=[False, True])
    chances = []
    for start in range(0, data.asked.size, BLOCK):
        part = slice(start, start + BLOCK)
        chances.append(clf.predict_proba(data.others[part])[:, 1])
        clf.partial_fit(data.others[part], data.asked[part])
    return measured(np.concatenate(chances), data.asked)


def reached(predict_proba: Callable[[Any], np.ndarray], data: Split) -> Quality:
    return measured(predict_proba(data.others)[:, 1], data.asked)


def measured(chances: np.ndarray, y: np.ndarray) -> Quality:
    chances = np.clip(chances, 1e-15, 1.0 - 1e-15)
    bins = np.minimum((BINS * chances).astype(int), BINS - 1)
    off = np.abs(np.bincount(bins, chances - y, BINS))
    log_loss = -np.log(np.where(y, chances, 1.0 - chances)).mean()
    return Quality(float(log_loss), float(off.sum() / y.size))


def middle(found: np.ndarray) -> Quality:
    return Quality(*np.median(found, axis=0).tolist())


def timed(case: str, clf: Any, data: Split) -> list[Contender]:
    online = clone(clf).set_params(calibration="online")

    def stream(learner: Any) -> Callable[[], object]:
        return lambda: clone(learner).partial_fit(data.X, data.y, classes=[False, True])

    def five() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return CalibratedClassifierCV(clf, cv=5).fit(data.X, data.y)

    works = {BARE: stream(clf), ONLINE: stream(online), FIVE: five}
    return [Contender(Key(case, name), lambda w=w: seconds(w)) for name, w in works.items()]
