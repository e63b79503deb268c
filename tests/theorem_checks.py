"""Proved bounds and observed values of every theorem, on small data with a seed.

Each function returns a `TheoremCheck`. `tests/docs/test_theorems_page.py` asserts that they hold,
and the pictures of the page on theorems draw them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.svm import LinearSVC

from maxmargin import (
    ALMA,
    AMIRA,
    AROW,
    FTRL,
    NORMA,
    PUMMA,
    ROMMA,
    AdaGrad,
    AutoMargin,
    BisectionPerceptron,
    DirectionalPerceptron,
    FixedShare,
    Forgetron,
    MaxMargin,
    PassiveAggressive,
    Pegasos,
    Perceptron,
    Projectron,
    RandomBudgetPerceptron,
    Relaxation,
)
from maxmargin.datasets import make_r_of_k, make_separable

Array = NDArray[np.float64]

SIGNS = (-1, 1)
# Enough for every run here to end by itself.
PASSES = 100_000


class TheoremCheck(NamedTuple):
    """Proved bounds and observed values along one axis.

    Attributes
    ----------
    title : begins with the name of the learner
    across, upwards : what the axes are
    at : positions on the first axis
    proved : bounds, by the names of their functions
    observed : what was measured
    is_floor : True if the bounds are lower bounds
    scales : of both axes
    others : what others reached, a line each
    """

    title: str
    across: str
    upwards: str
    at: Array
    proved: dict[str, Array]
    observed: Array
    is_floor: bool = False
    scales: tuple[str, str] = ("log", "log")
    others: Sequence[Array] = ()

    def holds(self) -> bool:
        """True if all observed values respect all bounds, up to rounding."""
        bounds = np.array(list(self.proved.values()))
        allowed = 1e-9 * np.abs(bounds)
        if self.is_floor:
            return bool((self.observed >= bounds - allowed).all())
        return bool((self.observed <= bounds + allowed).all())


# ----------------------------------------------------------------------------------- separable rows
class Separable(NamedTuple):
    """Rows that a hyperplane through 0 separates.

    Attributes
    ----------
    X, y : the rows, and -1 or 1
    margin : the best margin
    best : the unit vector that has it
    """

    X: Array
    y: NDArray[np.int64]
    margin: float
    best: Array

    def lengths(self) -> Array:
        return np.linalg.norm(self.X, axis=1)

    def radius(self) -> float:
        return float(self.lengths().max())

    def share(self, learner: Any) -> float:
        """The part of the best margin that a learner has reached."""
        (w,) = learner.coef_
        return float((self.y * (self.X @ w)).min() / np.linalg.norm(w) / self.margin)


def _known(X: Array, y: NDArray[np.int64]) -> Separable:
    exact = MaxMargin(soft_margin=0.0, fit_intercept=False, tol=1e-8).fit(X, y)
    (w,) = exact.coef_
    return Separable(X, y, exact.certificate_.margin, w / np.linalg.norm(w))


@lru_cache
def separable() -> Separable:
    """60 rows in five dimensions, around 0."""
    X, y = make_separable(60, 5, gap=1.0, random_state=0)
    return _known(X - 5.0, y)


@lru_cache
def normalised() -> Separable:
    """The same rows, all of length 1."""
    found = separable()
    return _known(found.X / found.lengths()[:, np.newaxis], found.y)


def fitted(learner: Any, X: Array, y: Array, fit_intercept: bool = False) -> Any:
    """The learner, after as many passes as it needs."""
    learner.set_params(fit_intercept=fit_intercept, max_iter=PASSES, random_state=0).fit(X, y)
    if not learner.converged_:
        raise RuntimeError(f"{learner} did not converge, so no theorem applies")
    return learner


def _fits(make: Callable[[float], Any], values: Array, rows: Separable) -> tuple[Array, Array]:
    """Updates made, and parts of the best margin reached, for each value of a parameter."""
    learners = [fitted(make(float(value)), rows.X, rows.y) for value in values]
    updates = np.array([learner.n_updates_ for learner in learners], float)
    return updates, np.array([rows.share(learner) for learner in learners])


def each(bound: Callable[[float], float], values: Iterable[float]) -> Array:
    return np.array([bound(float(value)) for value in values])


def _both(
    name: str,
    across: str,
    values: Array,
    fits: tuple[Array, Array],
    most: dict[str, Callable[[float], float]],
    least: Callable[[float], float],
    axis: str = "log",
) -> tuple[TheoremCheck, TheoremCheck]:
    """Two checks of a learner that converges: few updates, and a part of the best margin."""
    updates, shares = fits
    allowed = {function: each(bound, values) for function, bound in most.items()}
    part = {"margin_fraction": each(least, values)}
    return (
        TheoremCheck(name, across, "updates", values, allowed, updates, scales=(axis, "log")),
        TheoremCheck(
            name, across, "part of the best margin", values, part, shares, True, (axis, "linear")
        ),
    )


def _along(learner: Any, rows: Separable) -> Iterator[Array]:
    """The weights after each update, with one row after another until a pass brings none."""
    learner.set_params(fit_intercept=False)
    updates, before = 0, -1
    while updates > before:
        before = updates
        for x, label in zip(rows.X, rows.y, strict=True):
            learner.learn_one(x, label, classes=SIGNS)
            if learner.n_updates_ > updates:
                updates = learner.n_updates_
                yield learner.coef_[0].copy()


def _last_turn_away(learner: Any, rows: Separable) -> int:
    """How many updates came before the last one that turned w away from the best direction."""
    history = np.array(list(_along(learner, rows)))
    cosines = history @ rows.best / np.linalg.norm(history, axis=1)
    away = np.flatnonzero(np.diff(cosines) < -1e-12)
    return int(away[-1]) + 1 if away.size else 0


# ------------------------------------------------------------------------------------------- PUMMA
DELTAS = np.geomspace(0.01, 0.5, 7)


@lru_cache
def pumma() -> tuple[TheoremCheck, TheoremCheck]:
    """Against delta, with an intercept."""
    X, y = make_separable(60, 5, gap=1.0, random_state=0)
    exact = MaxMargin(soft_margin=0.0, tol=1e-8).fit(X, y)
    margin, diameter = exact.certificate_.margin, _diameter(X, y, 2.0)
    learners = [fitted(PUMMA(delta=float(delta)), X, y, True) for delta in DELTAS]
    fits = (
        np.array([learner.n_updates_ for learner in learners], float),
        np.array([learner.certificate_.margin for learner in learners]) / margin,
    )
    most = {"max_updates": lambda delta: PUMMA.max_updates(delta, diameter, margin)}
    return _both("PUMMA", "δ", DELTAS, fits, most, PUMMA.margin_fraction)


@lru_cache
def pumma_of_few_features() -> tuple[TheoremCheck, TheoremCheck]:
    """Against p, where 3 of 30 features matter: bounds in the ∞-norm."""
    X, y = make_r_of_k(100, 30, k=3, r=1, random_state=0)
    features, norm, delta = X.shape[1], np.inf, 0.1
    exponents = np.array([2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0])
    diameter, margin = _diameter(X, y, norm), _largest_margin(X, y)
    learners = [fitted(PUMMA(delta=delta, p=float(p)), X, y, True) for p in exponents]
    reached = [
        (y * learner.decision_function(X)).min() / np.abs(learner.coef_).sum()
        for learner in learners
    ]
    fits = np.array([learner.n_updates_ for learner in learners], float), np.array(reached) / margin

    def distortion(p: float) -> float:
        return PUMMA.distortion(p, norm, features)

    most = {
        "max_updates": lambda p: PUMMA.max_updates(delta, diameter, margin, p, distortion(p)),
    }
    return _both(
        "PUMMA, in the ∞-norm",
        "p",
        exponents,
        fits,
        most,
        lambda p: PUMMA.margin_fraction(delta, distortion(p)),
        axis="linear",
    )


def _diameter(X: Array, y: Array, norm: float) -> float:
    """The largest distance of a positive and a negative row."""
    gaps = (X[y > 0][:, np.newaxis] - X[y < 0]).reshape(-1, X.shape[1])
    return float(np.linalg.norm(gaps, ord=norm, axis=1).max())


def _largest_margin(X: Array, y: Array) -> float:
    """In the ∞-norm, by linear programming: w is the difference of two parts that sum up to 1."""
    rows, features = X.shape
    signed = y[:, np.newaxis] * X
    lacking = np.column_stack([-signed, signed, -y, np.ones(rows)])
    sides = [(0.0, None)] * (2 * features) + [(None, None)] * 2
    length = np.r_[np.ones(2 * features), 0.0, 0.0]
    found = linprog(
        np.r_[np.zeros(2 * features + 1), -1.0],
        A_ub=np.vstack([lacking, length]),
        b_ub=np.r_[np.zeros(rows), 1.0],
        bounds=sides,
    )
    return float(-found.fun)


# ---------------------------------------------------------------------------------- ROMMA and ALMA
@lru_cache
def romma() -> tuple[TheoremCheck, TheoremCheck]:
    rows = separable()
    fits = _fits(lambda delta: ROMMA(delta=delta), DELTAS, rows)
    most = {"max_updates": lambda delta: ROMMA.max_updates(delta, rows.radius(), rows.margin)}
    return _both("ROMMA", "δ", DELTAS, fits, most, ROMMA.margin_fraction)


@lru_cache
def alma() -> tuple[TheoremCheck, TheoremCheck]:
    rows, alphas = normalised(), np.geomspace(0.1, 1.0, 6)
    fits = _fits(lambda alpha: ALMA(alpha=alpha), alphas, rows)
    most = {"max_updates": lambda alpha: ALMA.max_updates(alpha, rows.margin)}
    return _both("ALMA", "α", alphas, fits, most, ALMA.margin_fraction)


# ------------------------------------------------------------------------------------------- AMIRA
@lru_cache
def amira() -> tuple[TheoremCheck, TheoremCheck]:
    rows, epsilons = separable(), np.geomspace(0.01, 1.0, 7)
    fits = _fits(lambda epsilon: AMIRA(epsilon=epsilon), epsilons, rows)
    most = {"max_updates": lambda epsilon: AMIRA.max_updates(epsilon, rows.radius(), rows.margin)}
    return _both("AMIRA", "ε", epsilons, fits, most, AMIRA.margin_fraction)


@lru_cache
def amira_length() -> TheoremCheck:
    """The length of the weights on the way."""
    rows, epsilon = separable(), 0.1
    lengths = np.linalg.norm(list(_along(AMIRA(epsilon=epsilon), rows)), axis=1)
    longest = np.full(lengths.size, AMIRA.max_norm(epsilon, rows.margin))
    return TheoremCheck(
        "AMIRA, ε = 0.1",
        "updates",
        "length of w",
        np.arange(1.0, lengths.size + 1),
        {"max_norm": longest},
        lengths,
        scales=("linear", "linear"),
    )


@lru_cache
def amira_inseparable() -> TheoremCheck:
    """Updates, which are mistakes for epsilon = 1, on rows of length 1 that nothing separates."""
    epsilon, stream = 1.0, _noisy_directions(2000, 0.02)
    shares = np.linspace(0.05, 1.0, 20)
    observed = _counted(AMIRA(epsilon=epsilon), stream, "n_updates_")
    losses = {gamma: np.cumsum(stream.lacking(1.0, gamma) ** 2) for gamma in shares}
    bounds = (AMIRA.max_updates_inseparable, AMIRA.max_mistakes)
    most = {
        bound.__name__: [
            min(
                bound(epsilon, 1.0, float(gamma), squared_losses=float(sums[seen - 1]))
                for gamma, sums in losses.items()
            )
            for seen in stream.stops()
        ]
        for bound in bounds
    }
    title = "AMIRA, ε = 1, with noise"
    return _along_stream(title, "updates", stream.stops(), most, observed)


# ----------------------------------------------------------------------- Perceptron and Relaxation
# Margins that are asked for, in units of the squared length of the longest row.
THRESHOLDS = np.geomspace(0.03, 10.0, 7)


@lru_cache
def perceptron() -> tuple[TheoremCheck, TheoremCheck]:
    rows = separable()
    radius = rows.radius()
    fits = _fits(lambda b: Perceptron(margin=b * radius**2), THRESHOLDS, rows)
    most = {
        "max_updates": lambda b: Perceptron.max_updates(
            radius, rows.margin, threshold=b * radius**2
        )
    }
    return _both(
        "Perceptron",
        "b / R²",
        THRESHOLDS,
        fits,
        most,
        lambda b: Perceptron.margin_fraction(radius, threshold=b * radius**2),
    )


@lru_cache
def perceptron_length() -> TheoremCheck:
    rows = separable()
    radius = rows.radius()
    observed = [
        max(np.linalg.norm(list(_along(Perceptron(margin=b * radius**2), rows)), axis=1))
        for b in THRESHOLDS
    ]
    most = each(
        lambda b: Perceptron.max_norm(radius, rows.margin, threshold=b * radius**2), THRESHOLDS
    )
    return TheoremCheck(
        "Perceptron",
        "b / R²",
        "largest length of w",
        THRESHOLDS,
        {"max_norm": most},
        np.array(observed),
    )


@lru_cache
def perceptron_turns() -> TheoremCheck:
    rows = separable()
    radius = rows.radius()
    observed = [_last_turn_away(Perceptron(margin=b * radius**2), rows) for b in THRESHOLDS]
    most = each(
        lambda b: Perceptron.stepwise_from(radius, rows.margin, threshold=b * radius**2),
        THRESHOLDS,
    )
    return TheoremCheck(
        "Perceptron",
        "b / R²",
        "last turn away, after updates",
        THRESHOLDS,
        {"stepwise_from": most},
        np.array(observed, float),
        scales=("log", "linear"),
    )


@lru_cache
def relaxation() -> tuple[TheoremCheck, TheoremCheck]:
    """Against how far a correction aims above the margin."""
    rows, b, rate = separable(), 1.0, 1.0
    radius, smallest = rows.radius(), float(rows.lengths().min())
    overshoots = np.geomspace(0.01, 1.0, 7)
    fits = _fits(lambda more: Relaxation(margin=b, target=b + more, rate=rate), overshoots, rows)
    most = {
        "max_updates": lambda more: Relaxation.max_updates(b, b + more, rate, radius, rows.margin),
        "max_updates_paper": lambda more: Relaxation.max_updates_paper(
            b, b + more, rate, radius, rows.margin, smallest
        ),
    }
    return _both(
        "Relaxation",
        "target − margin",
        overshoots,
        fits,
        most,
        lambda more: Relaxation.margin_fraction(b, b + more, rate),
    )


# ---------------------------------------------------- DirectionalPerceptron and BisectionPerceptron
BETAS = np.array([0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95])


@lru_cache
def directional() -> TheoremCheck:
    """Free length, against the margin that is asked for."""
    rows = separable()
    radius, margin = rows.radius(), rows.margin
    updates, _ = _fits(lambda part: DirectionalPerceptron(beta=part * margin), BETAS, rows)

    def best_start(part: float) -> float:
        return min(
            DirectionalPerceptron.max_updates_after(start, part * margin, radius, margin)
            for start in range(1, 50)
        )

    most = {
        "max_updates": lambda part: DirectionalPerceptron.max_updates(
            part * margin, radius, margin
        ),
        "max_updates_refined": lambda part: DirectionalPerceptron.max_updates_refined(
            part * margin, radius, margin
        ),
        "max_updates_after": best_start,
    }
    return TheoremCheck(
        "DirectionalPerceptron, free",
        "β / γ",
        "updates",
        BETAS,
        {name: each(bound, BETAS) for name, bound in most.items()},
        updates,
        scales=("linear", "log"),
    )


@lru_cache
def directional_turns() -> TheoremCheck:
    rows = separable()
    radius, margin = rows.radius(), rows.margin
    observed = [_last_turn_away(DirectionalPerceptron(beta=part * margin), rows) for part in BETAS]
    most = each(
        lambda part: DirectionalPerceptron.stepwise_from(part * margin, radius, margin), BETAS
    )
    return TheoremCheck(
        "DirectionalPerceptron, free",
        "β / γ",
        "last turn away, after updates",
        BETAS,
        {"stepwise_from": most},
        np.array(observed, float),
        scales=("linear", "linear"),
    )


@lru_cache
def directional_fixed() -> TheoremCheck:
    """Fixed length at the best rate, against the margin that is asked for."""
    rows = separable()
    radius, margin = rows.radius(), rows.margin

    def learner(part: float) -> DirectionalPerceptron:
        rate = DirectionalPerceptron.best_rate(part * margin, radius, margin)
        return DirectionalPerceptron(beta=part * margin, length="fixed", rate=rate)

    updates, _ = _fits(learner, BETAS, rows)
    most = each(
        lambda part: DirectionalPerceptron.max_updates_at_best_rate(part * margin, radius, margin),
        BETAS,
    )
    return TheoremCheck(
        "DirectionalPerceptron, fixed",
        "β / γ",
        "updates",
        BETAS,
        {"max_updates_at_best_rate": most},
        updates,
        scales=("linear", "log"),
    )


@lru_cache
def directional_rates() -> TheoremCheck:
    """Fixed length, against the rate."""
    rows = separable()
    radius, margin = rows.radius(), rows.margin
    beta = 0.5 * margin
    best = DirectionalPerceptron.best_rate(beta, radius, margin)
    shares = np.geomspace(0.05, 1.8, 8)

    def learner(share: float) -> DirectionalPerceptron:
        return DirectionalPerceptron(beta=beta, length="fixed", rate=share * best)

    updates, _ = _fits(learner, shares, rows)
    most = each(
        lambda share: DirectionalPerceptron.max_updates_fixed(beta, share * best, radius, margin),
        shares,
    )
    return TheoremCheck(
        "DirectionalPerceptron, fixed",
        "rate / best rate, for β = γ/2",
        "updates",
        shares,
        {"max_updates_fixed": most},
        updates,
    )


@lru_cache
def largest_ratio() -> TheoremCheck:
    """What an intercept that is one more coordinate costs, against the size of that coordinate."""
    X, y = make_separable(60, 5, gap=1.0, random_state=0)
    radius = float(np.linalg.norm(X, axis=1).max())
    scalings = np.geomspace(1.0, 100.0, 7)
    geometric = MaxMargin(soft_margin=0.0, tol=1e-8).fit(X, y).certificate_.margin
    directional = [
        _known(np.column_stack([X, np.full(len(y), scaling)]), y).margin for scaling in scalings
    ]
    most = each(lambda rho: DirectionalPerceptron.largest_ratio(radius, rho), scalings)
    return TheoremCheck(
        "DirectionalPerceptron, intercept",
        "ρ",
        "geometric / directional",
        scalings,
        {"largest_ratio": most},
        geometric / np.array(directional),
    )


@lru_cache
def bisection() -> TheoremCheck:
    rows, precisions = separable(), np.array([0.01, 0.02, 0.05, 0.1, 0.2])
    _, shares = _fits(lambda precision: BisectionPerceptron(precision=precision), precisions, rows)
    return TheoremCheck(
        "BisectionPerceptron",
        "precision",
        "part of the best margin",
        precisions,
        {"1 − precision": 1.0 - precisions},
        shares,
        True,
        ("log", "linear"),
    )


# ------------------------------------------------------------------------------------------ streams
def stops_in(rows: int) -> NDArray[np.int64]:
    """Numbers of rows after which to look: 40 of them, evenly spaced."""
    return np.linspace(0, rows, 41)[1:].astype(np.int64)


class Stream(NamedTuple):
    """Rows of length 1 near a line through 0, and labels.

    Attributes
    ----------
    X, y : the rows, and -1 or 1
    u : the unit vector along the line, with which learners are compared
    """

    X: Array
    y: NDArray[np.int64]
    u: Array

    def lacking(self, length: float, margin: float = 1.0) -> Array:
        """The hinge losses of a vector of this length, below this margin."""
        return np.maximum(0.0, margin - length * self.y * (self.X @ self.u))

    def stops(self) -> NDArray[np.int64]:
        return stops_in(len(self.y))


@lru_cache
def _noisy_directions(rows: int, noise: float) -> Stream:
    """Rows within 20 degrees of the line; some of them have the label of the other side."""
    random = np.random.default_rng(0)
    y = random.choice(SIGNS, rows)
    angles = np.deg2rad(random.uniform(-20.0, 20.0, rows))
    X = y[:, np.newaxis] * np.column_stack([np.cos(angles), np.sin(angles)])
    flipped = random.uniform(size=rows) < noise
    return Stream(X, np.where(flipped, -y, y), np.array([1.0, 0.0]))


def _counted(learner: Any, stream: Stream, count: str) -> list[int]:
    """A count of the learner at each stop of the stream."""
    learner.set_params(fit_intercept=False)
    counts, start = [], 0
    for stop in stream.stops():
        learner.partial_fit(stream.X[start:stop], stream.y[start:stop], classes=SIGNS)
        counts.append(getattr(learner, count))
        start = stop
    return counts


def _along_stream(
    title: str, upwards: str, stops: NDArray[np.int64], proved: dict[str, Any], observed: Any
) -> TheoremCheck:
    seen = stops.astype(float)
    bounds = {name: np.array(values, float) for name, values in proved.items()}
    counts = np.array(observed, float)
    return TheoremCheck(title, "rows", upwards, seen, bounds, counts, scales=("linear", "linear"))


def _smallest(
    bound: Callable[[float, float], float], stream: Stream, lengths: Array, power: int = 1
) -> list[float]:
    """At each stop the smallest ``bound(length, losses)`` of vectors of several lengths."""
    sums = {length: np.cumsum(stream.lacking(length) ** power) for length in lengths}
    return [
        min(bound(float(length), float(losses[stop - 1])) for length, losses in sums.items())
        for stop in stream.stops()
    ]


# -------------------------------------------------------------------- PassiveAggressive and Pegasos
LENGTHS = np.linspace(0.1, 3.0, 30)


@lru_cache
def passive_aggressive() -> TheoremCheck:
    stream, C = _noisy_directions(2000, 0.02), 0.1
    observed = _counted(PassiveAggressive(C=C), stream, "n_mistakes_")
    most = _smallest(
        lambda norm, losses: PassiveAggressive.max_mistakes(1.0, norm, C, losses), stream, LENGTHS
    )
    return _along_stream(
        "PassiveAggressive, PA-I", "mistakes", stream.stops(), {"max_mistakes": most}, observed
    )


def _outputs(learner: Any, X: Array, y: Array) -> Array:
    """``y (w.x)`` of each row, before it is learned from."""
    learner.set_params(fit_intercept=False)
    w, outputs = np.zeros(X.shape[1]), []
    for x, label in zip(X, y, strict=True):
        outputs.append(label * (w @ x))
        learner.learn_one(x, label, classes=SIGNS)
        (w,) = learner.coef_
    return np.array(outputs)


@lru_cache
def passive_aggressive_losses() -> TheoremCheck:
    stream, C = _noisy_directions(2000, 0.02), 0.1
    learner = PassiveAggressive(C=C, loss="squared_hinge")
    losses = np.maximum(0.0, 1.0 - _outputs(learner, stream.X, stream.y)) ** 2
    most = _smallest(
        lambda norm, squares: PassiveAggressive.max_squared_loss(1.0, norm, C, squares),
        stream,
        LENGTHS,
        power=2,
    )
    return _along_stream(
        "PassiveAggressive, PA-II",
        "sum of squared losses",
        stream.stops(),
        {"max_squared_loss": most},
        np.cumsum(losses)[stream.stops() - 1],
    )


@lru_cache
def pegasos() -> TheoremCheck:
    """How much worse than the best vector of all rows so far, in the mean over trials."""
    stream, strength = _noisy_directions(2000, 0.02), 0.1
    learner = Pegasos(lambda_=strength).set_params(fit_intercept=False)
    w, paid = np.zeros(2), []
    for x, label in zip(stream.X, stream.y, strict=True):
        paid.append(0.5 * strength * (w @ w) + max(0.0, 1.0 - label * (w @ x)))
        learner.learn_one(x, label, classes=SIGNS)
        (w,) = learner.coef_
    trials = np.array([10, 20, 50, 100, 200, 500, 1000, 2000])
    regrets = [
        np.mean(paid[:seen]) - _least_objective(stream.X[:seen], stream.y[:seen], strength)
        for seen in trials
    ]
    most = each(lambda seen: Pegasos.max_regret(strength, 1.0, int(seen)), trials)
    return TheoremCheck(
        "Pegasos, λ = 0.1",
        "rows",
        "mean regret",
        trials.astype(float),
        {"max_regret": most},
        np.array(regrets),
    )


# --------------------------------------------------------------------------- AROW, AdaGrad and FTRL
def _walk(learner: Any, stream: Stream) -> Array:
    """The weights before the first row, and after each row."""
    learner.set_params(fit_intercept=False, scaling=None)
    weights = [np.zeros(stream.X.shape[1])]
    for x, label in zip(stream.X, stream.y, strict=True):
        learner.learn_one(x, label, classes=SIGNS)
        weights.append(learner.coef_[0].copy())
    return np.array(weights)


def _arow_bounds(stream: Stream, walk: Array, r: float) -> Array:
    """The smallest bound after each row, of vectors of several lengths."""
    updated = (walk[1:] != walk[:-1]).any(axis=1)
    gained = np.cumsum(updated[:, np.newaxis] * stream.X**2, axis=0) / r
    bounds = []
    for length in LENGTHS:
        distances = updated[:, np.newaxis] * (walk[1:] - length * stream.u) ** 2
        deviations = (np.maximum.accumulate(distances) * gained).sum(axis=1)
        losses = np.cumsum(updated * stream.lacking(length) ** 2)
        pairs = zip(deviations, losses, strict=True)
        bounds.append([AROW.max_mistakes(1.0, length, r, *map(float, pair)) for pair in pairs])
    return np.min(bounds, axis=0)


@lru_cache
def arow() -> TheoremCheck:
    stream, r = _noisy_directions(1000, 0.0), 1.0
    walk = _walk(AROW(r=r), stream)
    mistakes = np.cumsum(stream.y * np.einsum("tj,tj->t", stream.X, walk[:-1]) <= 0.0)
    at = stream.stops() - 1
    proved = {"max_mistakes": _arow_bounds(stream, walk, r)[at]}
    return _along_stream("AROW", "mistakes", stream.stops(), proved, mistakes[at])


@lru_cache
def arow_regularised() -> TheoremCheck:
    """At the end of a stream, against r."""
    stream, values, mistakes, most = (
        _noisy_directions(1000, 0.02),
        np.geomspace(0.1, 100.0, 7),
        [],
        [],
    )
    for r in values.tolist():
        learner = AROW(r=r)
        most.append(_arow_bounds(stream, _walk(learner, stream), r)[-1])
        mistakes.append(learner.n_mistakes_)
    title = "AROW, 2 % wrong labels"
    return TheoremCheck(
        title, "r", "mistakes", values, {"max_mistakes": np.array(most)}, np.array(mistakes)
    )


def _regrets(
    learner: Any, slopes: Callable[[Array], Array], losses: Callable[[Array], Array]
) -> tuple[Stream, Array, Array, Array, Array]:
    """A stream, the vector to compare with, and after each row the regret, D and gradients."""
    stream = _noisy_directions(1000, 0.02)
    walk, u = _walk(learner, stream), 2.0 * stream.u
    margins = stream.y * np.einsum("tj,tj->t", stream.X, walk[:-1])
    regret = np.cumsum(losses(margins) - losses(stream.y * (stream.X @ u)))
    squares = np.cumsum(slopes(margins)[:, np.newaxis] ** 2 * stream.X**2, axis=0)
    deviations = np.maximum.accumulate(np.abs(walk[:-1] - u).max(axis=1))
    return stream, u, regret, deviations, np.sqrt(squares).sum(axis=1)


@lru_cache
def adagrad() -> TheoremCheck:
    rate = 0.2
    stream, _, regret, deviations, gradients = _regrets(
        AdaGrad(rate=rate),
        lambda m: np.where(m < 1.0, 1.0, 0.0),
        lambda m: np.maximum(0.0, 1.0 - m),
    )
    at = stream.stops() - 1
    pairs = zip(deviations[at].tolist(), gradients[at].tolist(), strict=True)
    most = [AdaGrad.max_regret(rate, *pair) for pair in pairs]
    return _along_stream("AdaGrad", "regret", stream.stops(), {"max_regret": most}, regret[at])


@lru_cache
def ftrl() -> TheoremCheck:
    numbers = {"alpha": 0.5, "beta": 1.0, "l1": 1.0, "l2": 0.0}
    stream, u, regret, deviations, gradients = _regrets(
        FTRL(**numbers), lambda m: 1.0 / (1.0 + np.exp(m)), lambda m: np.logaddexp(0.0, -m)
    )
    at = stream.stops() - 1
    norms = {"norm": float(np.linalg.norm(u)), "norm1": float(np.abs(u).sum())}
    pairs = zip(deviations[at].tolist(), gradients[at].tolist(), strict=True)
    most = [
        FTRL.max_regret(**numbers, **norms, deviation=deviation, gradients=total)
        for deviation, total in pairs
    ]
    return _along_stream("FTRL, l1 = 1", "regret", stream.stops(), {"max_regret": most}, regret[at])


def _least_objective(X: Array, y: Array, strength: float) -> float:
    svm = LinearSVC(
        loss="hinge",
        C=1.0 / (strength * len(y)),
        fit_intercept=False,
        tol=1e-8,
        max_iter=PASSES,
        random_state=0,
    )
    (w,) = svm.fit(X, y).coef_
    return float(0.5 * strength * (w @ w) + np.maximum(0.0, 1.0 - y * (X @ w)).mean())


# ---------------------------------------------------------------------------------- moving targets
class Pursuit(NamedTuple):
    """A target that turns in the plane at an even speed, and what the theorems need to know of it.

    Attributes
    ----------
    X, y : rows of length 1 at most, and -1 or 1
    margin : that of the target, a unit vector, on every row
    drift, squared_drift : how far it moves in all, and the sum of the squares of its moves
    """

    X: Array
    y: NDArray[np.int64]
    margin: float
    drift: float
    squared_drift: float

    def facts(self, kind: type) -> dict[str, Any]:
        found = {"radius": 1.0, "norm": 1.0, "margin": self.margin, "drift": self.drift}
        if kind is NORMA:
            found |= {"trials": len(self.y), "squared_drift": self.squared_drift}
        return found


@lru_cache
def _pursuit(turns: float) -> Pursuit:
    rows, margin = 1000, 0.3
    random = np.random.default_rng(0)
    directions = 2.0 * np.pi * turns * np.arange(rows) / rows
    y = random.choice(SIGNS, rows)
    # On the disc, beyond the margin on the side of the label: how far ahead, and how far aside.
    ahead = random.uniform(margin, 1.0, rows)
    aside = np.sqrt(1.0 - ahead**2) * random.uniform(-1.0, 1.0, rows)
    cosines, sines = np.cos(directions), np.sin(directions)
    X = np.column_stack([ahead * cosines - aside * sines, ahead * sines + aside * cosines])
    moves = np.full(rows - 1, 2.0 * np.sin(np.pi * turns / rows))
    return Pursuit(X * y[:, np.newaxis], y, margin, moves.sum(), (moves**2).sum())


def _pursued(learner: Any, pursuit: Pursuit) -> Any:
    learner.set_params(fit_intercept=False)
    return learner.partial_fit(pursuit.X, pursuit.y, classes=SIGNS)


def _moving_mistakes(kind: Any) -> TheoremCheck:
    """Mistakes of the learner that its theorem tunes, against how far the target moves."""
    turns = np.array([0.1, 0.25, 0.5, 1.0, 2.0, 4.0])
    all_facts = [_pursuit(float(turn)).facts(kind) for turn in turns]
    observed = [
        _pursued(kind.tuned(**facts), _pursuit(float(turn))).n_mistakes_
        for turn, facts in zip(turns, all_facts, strict=True)
    ]
    most = np.array([kind.mistake_bound(**facts) for facts in all_facts])
    return TheoremCheck(
        kind.__name__,
        "turns of the target",
        "mistakes",
        turns,
        {"mistake_bound": most},
        np.array(observed, float),
    )


def _moving_margin_errors(kind: Any) -> TheoremCheck:
    """Rows below a margin, against that margin; half a turn."""
    pursuit = _pursuit(0.5)
    facts, parts = pursuit.facts(kind), np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    observed = [
        _pursued(kind.tuned(**facts, threshold=part * pursuit.margin), pursuit).n_updates_
        for part in parts
    ]
    most = each(
        lambda part: kind.margin_error_bound(**facts, threshold=part * pursuit.margin), parts
    )
    return TheoremCheck(
        f"{kind.__name__}, half a turn",
        "ρ / μ",
        "margin errors",
        parts,
        {"margin_error_bound": most},
        np.array(observed, float),
        scales=("linear", "log"),
    )


def _moving_losses(kind: Any) -> TheoremCheck:
    """Losses below a margin, against the rate; half a turn."""
    pursuit, threshold = _pursuit(0.5), 0.1
    facts, rates = pursuit.facts(kind), np.geomspace(0.02, 0.3, 6)
    # The decay that the theorem would choose for the rate.
    decay = np.sqrt(pursuit.squared_drift / len(pursuit.y))
    observed, most = [], []
    for rate in rates:
        settings = {"rate": float(rate)}
        room = {"radius": 1.0}
        if kind is NORMA:
            settings["decay"], room = float(decay / rate), {}
        learner = kind(margin=threshold, **settings, **room)
        outputs = _outputs(learner, pursuit.X, pursuit.y)
        observed.append(np.maximum(0.0, threshold - outputs).sum())
        most.append(
            kind.loss_bound(
                **facts, threshold=threshold, margin_errors=learner.n_updates_, **settings
            )
        )
    return TheoremCheck(
        f"{kind.__name__}, half a turn",
        "rate",
        "sum of losses",
        rates,
        {"loss_bound": np.array(most)},
        np.array(observed),
    )


@lru_cache
def moving(kind: Any) -> tuple[TheoremCheck, TheoremCheck, TheoremCheck]:
    return _moving_mistakes(kind), _moving_margin_errors(kind), _moving_losses(kind)


@lru_cache
def untuned() -> tuple[TheoremCheck, TheoremCheck]:
    """Mistakes of the vote that knows no target, against how far it moves and against noise."""
    turns, noises = np.array([0.1, 0.25, 0.5, 1.0, 2.0, 4.0]), np.array([0.0, 0.02, 0.05, 0.1, 0.2])
    by_turns = [_untuned(_pursuit(float(turn)), 0.0) for turn in turns]
    by_noise = [_untuned(_pursuit(0.5), float(noise)) for noise in noises]
    first, second = (np.array(found, float).T for found in (by_turns, by_noise))
    return (
        TheoremCheck(
            "FixedShare.tracking",
            "turns of the target",
            "mistakes",
            turns,
            {"tracking_bound": first[1]},
            first[0],
        ),
        TheoremCheck(
            "FixedShare.tracking, half a turn",
            "part of wrong labels",
            "mistakes",
            noises,
            {"tracking_bound": second[1]},
            second[0],
            scales=("linear", "log"),
        ),
    )


def _untuned(pursuit: Pursuit, noise: float) -> tuple[int, float]:
    """The mistakes of the vote with this part of wrong labels, and the bound on them."""
    wrong = np.random.default_rng(1).uniform(size=len(pursuit.y)) < noise
    pursuit = pursuit._replace(y=np.where(wrong, -pursuit.y, pursuit.y))
    # A wrong row is at most 1 on the wrong side of the target.
    facts = pursuit.facts(NORMA) | {"losses": float(wrong.sum()) * (1.0 + pursuit.margin)}
    vote = FixedShare.tracking(1.0, len(pursuit.y), fit_intercept=False)
    vote.partial_fit(pursuit.X, pursuit.y, classes=SIGNS)
    return vote.n_mistakes_, FixedShare.tracking_bound(**facts)


# -------------------------------------------------------------------------------------- FixedShare
@lru_cache
def fixed_share() -> TheoremCheck:
    """A vote on a target that jumps twice, beside the best sequence of its experts."""
    share, rate = 0.001, 0.5
    random = np.random.default_rng(0)
    rows = 3000
    targets = random.normal(size=(3, 5))[np.arange(rows) * 3 // rows]
    X = random.normal(size=(rows, 5))
    y = np.where(np.sum(targets * X, axis=1) > 0.0, 1, -1)
    stops = stops_in(rows)
    vote = FixedShare(share=share, rate=rate, fit_intercept=False)
    mistakes, wrong, start = [], [], 0
    for stop in stops:
        vote.partial_fit(X[start:stop], y[start:stop], classes=SIGNS)
        mistakes.append(vote.n_mistakes_)
        wrong.append(vote.expert_mistakes_)
        start = stop
    change = np.log((wrong[0].size - 1) / share) + np.log1p(-share)
    made, changes = _best_sequences(np.diff(wrong, axis=0, prepend=0), change / rate)
    most = [
        FixedShare.mistake_bound(int(m), int(s), wrong[0].size, int(trials), share=share, rate=rate)
        for m, s, trials in zip(made, changes, stops, strict=True)
    ]
    return _along_stream(
        "FixedShare, two jumps", "mistakes", stops, {"mistake_bound": most}, mistakes
    )


def _best_sequences(wrong: Array, price: float) -> tuple[Array, Array]:
    """Mistakes and changes of the experts' best sequence up to each stop; a change has a price.

    ``wrong`` has the mistakes of each expert between two stops. Experts change at stops only.
    """
    mistakes, changes, best = np.zeros(wrong.shape[1]), np.zeros(wrong.shape[1]), []
    for more in wrong:
        cheapest = (mistakes + price * changes).argmin()
        cost = mistakes[cheapest] + price * (changes[cheapest] + 1)
        moved = cost < mistakes + price * changes
        mistakes = np.where(moved, mistakes[cheapest], mistakes) + more
        changes = np.where(moved, changes[cheapest] + 1, changes)
        end = (mistakes + price * changes).argmin()
        best.append((mistakes[end], changes[end]))
    made, changed = np.array(best).T
    return made, changed


def automargin(jumps: int) -> TheoremCheck:
    """The log loss of the mixture beside those of its experts, on a target that jumps so often."""
    random = np.random.default_rng(2)
    rows, parts = 1000, jumps + 1
    targets = random.normal(size=(parts, 4))[np.arange(rows) * parts // rows]
    X = random.normal(size=(rows, 4))
    y = (np.sum(targets * X, axis=1) + 0.3 * random.normal(size=rows) > 0.0).astype(int)
    mixture, experts = _log_losses(X * [1000.0, 1.0, 1.0, 0.01], y)
    stops, count = stops_in(rows), experts.shape[1]
    least = [_least_losses(experts, k) for k in range(jumps + 1)]
    most = {
        f"max_log_loss, {k} changes" if k else "max_log_loss": [
            AutoMargin.max_log_loss(float(least[k][stop - 1]), k, count, int(stop))
            for stop in stops
        ]
        for k in {0, jumps}
    }
    title = f"AutoMargin, {jumps} jumps" if jumps else "AutoMargin"
    found = _along_stream(title, "log loss", stops, most, mixture.cumsum()[stops - 1])
    return found._replace(others=experts.cumsum(axis=0)[stops - 1].T)


def _log_losses(X: Array, y: NDArray[np.int64]) -> tuple[Array, Array]:
    """Of the mixture and of each expert, row by row.

    An expert's probability of the label follows from its weights before and after.
    """
    clf, mixture, experts = AutoMargin(), [], []
    p, before = 0.5, 1.0 / len(clf.experts_)
    for t, (row, label) in enumerate(zip(X, y, strict=True), 1):
        if t > 1:
            p, before = clf.predict_proba([row])[0, label], clf.weights_[0]
        clf.partial_fit([row], [label], classes=[0, 1])
        after, share = clf.weights_[0], 1.0 / (t + 1.0)
        mixture.append(-np.log(p))
        experts.append(-np.log((after - share / after.size) / (1.0 - share) * p / before))
    return np.array(mixture), np.array(experts)


def _least_losses(losses: Array, changes: int) -> Array:
    """Up to each row, the least total loss of a sequence of experts that changes so many times."""
    best = [np.zeros(losses.shape[1]) for _ in range(changes + 1)]
    found = []
    for loss in losses:
        cheapest = [each.min() for each in best]
        for k in range(changes, 0, -1):
            best[k] = np.minimum(best[k], cheapest[k - 1])
        best = [each + loss for each in best]
        found.append(best[changes].min())
    return np.array(found)


# ---------------------------------------------------------------------------------- bounded memory
BUDGET = 84
RUNS = 20
ON_A_LINE = {"kernel": "linear", "fit_intercept": False}


def _budget_stream() -> Stream:
    return _noisy_directions(3000, 0.05)


@lru_cache
def forgetron() -> TheoremCheck:
    stream = _budget_stream()
    observed = _counted(Forgetron(budget=BUDGET, **ON_A_LINE), stream, "n_mistakes_")
    lengths = np.linspace(0.1, Forgetron.max_norm(BUDGET), 30)
    bound = partial(Forgetron.max_mistakes, budget=BUDGET)
    most = _smallest(bound, stream, lengths)
    return _along_stream("Forgetron", "mistakes", stream.stops(), {"max_mistakes": most}, observed)


@lru_cache
def projectron() -> TheoremCheck:
    stream, threshold = _budget_stream(), 0.01
    learner = Projectron(threshold=threshold, plus=False, **ON_A_LINE)
    observed = _counted(learner, stream, "n_mistakes_")
    most = _smallest(
        lambda norm, losses: Projectron.max_mistakes(norm, losses, threshold=threshold),
        stream,
        LENGTHS,
    )
    return _along_stream("Projectron", "mistakes", stream.stops(), {"max_mistakes": most}, observed)


def _expected(stream: Stream, budget: int) -> list[float]:
    return _smallest(
        lambda norm, losses: RandomBudgetPerceptron.expected_mistakes(norm, losses, budget=budget),
        stream,
        LENGTHS,
    )


def _at_random(budget: int) -> list[RandomBudgetPerceptron]:
    """Learners that choose differently."""
    return [
        RandomBudgetPerceptron(budget=budget, random_state=seed, **ON_A_LINE)
        for seed in range(RUNS)
    ]


@lru_cache
def random_budget() -> TheoremCheck:
    stream = _budget_stream()
    runs = [_counted(learner, stream, "n_mistakes_") for learner in _at_random(BUDGET)]
    return _along_stream(
        "RandomBudgetPerceptron",
        f"mistakes, mean of {RUNS}",
        stream.stops(),
        {"expected_mistakes": _expected(stream, BUDGET)},
        np.mean(runs, axis=0),
    )


@lru_cache
def random_budgets() -> TheoremCheck:
    """At the end of the stream, against the budget."""
    stream, budgets = _budget_stream(), np.array([2, 4, 8, 16, 32, 64, 128])
    observed = [
        np.mean(
            [
                learner.partial_fit(stream.X, stream.y, classes=SIGNS).n_mistakes_
                for learner in _at_random(int(budget))
            ]
        )
        for budget in budgets
    ]
    return TheoremCheck(
        "RandomBudgetPerceptron",
        "rows stored",
        f"mistakes, mean of {RUNS}",
        budgets.astype(float),
        {"expected_mistakes": each(lambda budget: _expected(stream, int(budget))[-1], budgets)},
        np.array(observed),
        scales=("log", "linear"),
    )
