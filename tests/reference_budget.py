"""Plain NumPy references of the learners in bounded memory: NOCA and kernel perceptrons.

``noca`` takes the rows themselves, once, in the order given; classes are 0, ..., M - 1, and of two
classes 1 is the positive one. The kernel learners take the Gram matrix K of all training rows,
labels -1 and +1, and ``order``, as those of ``reference_kernel``. A store is a list of slots, each
the index of a row and the coefficient of its phi(x), which has the sign of y unless there are
projections; a row that was stored twice has two slots. Nothing is carried over between trials but
the store and the counts named: outputs are summed anew and projections solved anew from K. A row
with K(x, x) = 0 is never used: it is a mistake, but counts for nothing else.

For more than two classes call the kernel learners once for each class, ``one_vs_rest``.

Papers cited without a year:

- Chi, He & Zhang, Nonlinear Online Classification Algorithm with Probability Margin
- Dekel, Shalev-Shwartz & Singer, The Forgetron: A Kernel-Based Perceptron on a Budget
- Orabona, Keshet & Caputo, Bounded Kernel-Based Online Learning
- Cavallanti, Cesa-Bianchi & Gentile, Tracking the Best Hyperplane with a Simple Budget Perceptron
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from reference import Array

Labels = NDArray[np.int64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]


# NOCA.


class Mixture(NamedTuple):
    """Gaussian components, one row each: class, mean, variance by feature, number of rows."""

    labels: Labels
    means: Array
    variances: Array
    counts: Labels


class MixtureTrace(NamedTuple):
    """What NOCA did: all but the components have one entry per trial.

    Scores (of each class, log sum_k pi_k N(x)), margins, predictions and errors (a margin error)
    are those before the trial changes anything; rhos are after it. The row went into component
    ``assigned``, which it ``founded`` if this is a new one. History holds the components after each
    trial, and is empty unless asked for.
    """

    components: Mixture
    scores: Array
    margins: Array
    predictions: Labels
    errors: Flags
    rhos: Array
    assigned: Labels
    founded: Flags
    history: list[Mixture]


def log_densities(mixture: Mixture, x: Array) -> Array:
    """The log N(x | mu_k, diag v_k) of each component."""
    away = (x - mixture.means) ** 2 / mixture.variances
    result: Array = -0.5 * np.sum(np.log(2 * np.pi * mixture.variances) + away, axis=1)
    return result


def class_scores(mixture: Mixture, x: Array, classes: int, weights: str) -> Array:
    """The log of sum_k pi_k N(x) over each class's components, -inf for a class without any.

    The pi_k are n_k / sum n ("count"), or 1 ("literal": the theta_x before equation (3)).
    """
    terms = log_densities(mixture, x)
    if weights == "count":
        terms = terms + np.log(mixture.counts / max(1, int(np.sum(mixture.counts))))
    return np.array([_log_sum(terms[mixture.labels == c]) for c in range(classes)])


def probabilities(scores: Array) -> Array:
    """P_c of each class (section 2.1), all equal as long as there are no components."""
    if np.max(scores) == -np.inf:
        return np.full(len(scores), 1 / len(scores))
    parts = np.exp(scores - np.max(scores))
    result: Array = parts / np.sum(parts)
    return result


def mixture_margin(scores: Array, label: int, output: str) -> float:
    """(P_y - max P_c) / 2 over the other classes c; "literal" has neither the half nor the sum.

    Of two classes this is y f(x), with f = (P_+ - P_-) / 2, or, literally, equation (3). No density
    is written out but that of the literal margin itself, which may be infinite.
    """
    rival = np.max(np.delete(scores, label))
    high, low = max(scores[label], rival), min(scores[label], rival)
    if high == low:
        return 0.0
    top = np.max(scores)
    if output == "normalised":
        size = np.exp(high - top) * -np.expm1(low - high) / (2 * np.sum(np.exp(scores - top)))
    else:
        with np.errstate(over="ignore"):
            size = np.exp(high + np.log(-np.expm1(low - high)))
    return float(size if scores[label] > rival else -size)


def noca(
    X: Array,
    y: Labels,
    classes: int,
    *,
    rho: float = 0.1,
    tau: float = 0.9,
    rho_min: float = 0.0,
    epsilon: float = 1.0,
    width: float | None = None,
    floor: float = 0.7,
    weights: str = "count",
    output: str = "normalised",
    nearest: str = "class",
    variance: str = "central",
    max_components: int | None = None,
    keep: bool = False,
) -> MixtureTrace:
    """Chi, He & Zhang, Algorithm 1, with a margin error where the loss (6) is positive.

    A margin error lowers rho and founds a component at x, of standard deviation ``width`` (epsilon
    / 2). Else x goes into the nearest component of its own class, if that is not farther than
    epsilon, and founds one if it is. The variances are about the mean that moves along, where the
    paper prints x x', and never below (floor width)^2. The one ``width`` given to a component stays
    in its sum of squares: while the floor does not bind, n rows with mean m have the variance
    (width^2 + sum (x - m)^2) / n.

    With ``max_components`` reached, x goes into the nearest of its class however far; rho is
    lowered as before. If its class has none, which would keep it unlearned for ever, x founds a
    component in the place of the one with the fewest rows, taken from classes with more than one
    component while there are such, so that no class is lost. With rho below ``rho_min``, x also
    goes into the nearest of its class; if that has none, x founds one.

    As printed, ``nearest="any"`` takes the nearest component of all, which keeps its label, and
    ``variance="raw"`` puts x^2 in the place of the product of gaps.

    Ties go to the first component, the lowest class, and the positive one of two classes.
    """
    width = epsilon / 2 if width is None else width
    least = (floor * width) ** 2
    mixture = Mixture(
        np.zeros(0, dtype=np.int64),
        np.zeros((0, X.shape[1])),
        np.zeros((0, X.shape[1])),
        np.zeros(0, dtype=np.int64),
    )
    scores, margins, predictions, errors, rhos = [], [], [], [], []
    assigned, founded, history = [], [], []
    for x, label in zip(X, y, strict=True):
        s = class_scores(mixture, x, classes, weights)
        margin = mixture_margin(s, label, output)
        error = margin < rho
        scores.append(s)
        margins.append(margin)
        predictions.append(int(s[1] >= s[0]) if classes == 2 else int(np.argmax(s)))
        errors.append(error)
        if error:
            rho = tau * rho
        rhos.append(rho)

        same = np.flatnonzero((mixture.labels == label) | (nearest == "any"))
        distances = np.sqrt(np.sum((mixture.means[same] - x) ** 2, axis=1))
        full = max_components is not None and len(mixture.labels) >= max_components
        closed = full or rho < rho_min
        found = len(same) == 0 or (not closed and bool(error or np.min(distances) > epsilon))
        if found:
            k = _fewest(mixture) if full else len(mixture.labels)
            mixture = _found(mixture, k, x, label, width)
        else:
            k = int(same[np.argmin(distances)])
            _reestimate(mixture, k, x, least, variance)
        assigned.append(k)
        founded.append(found)
        if keep:
            history.append(_copy(mixture))
    return MixtureTrace(
        mixture,
        np.array(scores),
        np.array(margins),
        np.array(predictions),
        np.array(errors, dtype=bool),
        np.array(rhos),
        np.array(assigned),
        np.array(founded, dtype=bool),
        history,
    )


def noca_without_estimates(K: Array, y: Array, *, rho: float, tau: float) -> NDArray[np.bool_]:
    """Chi, He & Zhang, (7) and (10) alone: which rows are margin errors.

    Each of them founds a component and lowers rho; other rows change nothing. K are the densities
    of components at each other's means.
    """
    errors = np.zeros(len(y), dtype=bool)
    for i in range(len(y)):
        errors[i] = y[i] * np.sum(y[:i] * errors[:i] * K[:i, i]) < rho
        rho *= tau if errors[i] else 1.0
    return errors


def _log_sum(terms: Array) -> float:
    """The log of the sum of the exponentials, -inf for none."""
    top = np.max(terms, initial=-np.inf)
    return float(top if top == -np.inf else top + np.log(np.sum(np.exp(terms - top))))


def _copy(mixture: Mixture) -> Mixture:
    labels, means, variances, counts = mixture
    return Mixture(labels.copy(), means.copy(), variances.copy(), counts.copy())


def _fewest(mixture: Mixture) -> int:
    sizes = np.array([np.sum(mixture.labels == z) for z in mixture.labels])
    spare = sizes > 1 if np.any(sizes > 1) else sizes > 0
    return int(np.argmin(np.where(spare, mixture.counts, np.iinfo(np.int64).max)))


def _found(mixture: Mixture, k: int, x: Array, label: int, width: float) -> Mixture:
    """A component of x alone at place k, the last one or that of another."""

    def put(old: NDArray[Any], new: Any) -> NDArray[Any]:
        return np.concatenate([old[:k], np.array([new], dtype=old.dtype), old[k + 1 :]])

    return Mixture(
        put(mixture.labels, label),
        put(mixture.means, x),
        put(mixture.variances, np.full(len(x), width**2)),
        put(mixture.counts, 1),
    )


def _reestimate(mixture: Mixture, k: int, x: Array, least: float, variance: str) -> None:
    """The rule below equation (8), in place; if central with (x - mu)(x - mu') for its x x'."""
    n, mean = mixture.counts[k], mixture.means[k]
    moved = (n * mean + x) / (n + 1)
    square = x * x if variance == "raw" else (x - mean) * (x - moved)
    spread = (n * mixture.variances[k] + square) / (n + 1)
    mixture.means[k] = moved
    mixture.variances[k] = np.maximum(least, spread)
    mixture.counts[k] = n + 1


# Kernel perceptrons with a store.


class Store(NamedTuple):
    """The slots: indices of rows, and the coefficients of their phi(x)."""

    ids: Indices
    coefficients: Array


class BudgetTrace(NamedTuple):
    """What a learner did: all but the store have one entry per trial.

    History holds the store after a trial, outputs the f(x) before it, and mistakes are y f(x) <= 0.
    """

    store: Store
    history: list[Store]
    outputs: Array
    mistakes: Flags
    updated: Flags


class ForgetronTrace(NamedTuple):
    """As ``BudgetTrace``; M mistakes so far, Q and the phi of the trial, 1 where nothing shrank."""

    store: Store
    history: list[Store]
    outputs: Array
    mistakes: Flags
    updated: Flags
    Q: Array
    M: Array
    phi: Array


class ProjectronTrace(NamedTuple):
    """As ``BudgetTrace``; squares are the delta^2 of the trial, NaN where there was no projection.

    Steps are the multiples of y phi(x), or of its projection, that were added (0 for none). Mass is
    the sum of the steps so far and slack that of step |delta| over those that were projected:
    (|w| + slack) / mass is an upper bound on the margin of the rows of ``order[: t + 1]``.
    """

    store: Store
    history: list[Store]
    outputs: Array
    mistakes: Flags
    updated: Flags
    squares: Array
    projected: Flags
    steps: Array
    mass: Array
    slack: Array


Update = Callable[[Store, int, float], Store | None]
Trace = TypeVar("Trace", BudgetTrace, ForgetronTrace, ProjectronTrace)


def store_outputs(K: Array, store: Store, rows: int | Indices) -> Array:
    """The f(x) of rows of K."""
    result: Array = K[rows][..., store.ids] @ store.coefficients
    return result


def store_square(K: Array, store: Store) -> float:
    """The square of |w|."""
    gram = K[np.ix_(store.ids, store.ids)]
    return max(0.0, float(store.coefficients @ gram @ store.coefficients))


def store_coefficients(store: Store, rows: int) -> Array:
    """One coefficient for each row of K, as in ``reference_kernel``: slots of one row add up."""
    result = np.zeros(rows)
    np.add.at(result, store.ids, store.coefficients)
    return result


def one_vs_rest(
    learn: Callable[[Array, int], Trace], y: Labels, classes: int
) -> tuple[list[Trace], Labels]:
    """A learner for each class, of that class (+1) against the rest (-1), and what they predict.

    ``learn`` is given the labels of a class and its number: each has a store of its own, and the
    random budget its own choices. Predictions, before each trial, go to the largest output, ties to
    the lowest class.
    """
    traces = [learn(np.where(y == c, 1.0, -1.0), c) for c in range(classes)]
    return traces, np.argmax([trace.outputs for trace in traces], axis=0)


def forgetron(K: Array, y: Array, order: Indices, *, budget: int) -> ForgetronTrace:
    """Dekel, Shalev-Shwartz & Singer, the self-tuned Forgetron; slots are oldest first.

    A mistake that makes the store overflow shrinks all coefficients by the largest phi in (0, 1]
    with Q + Psi(phi sigma, phi mu) <= 15 M / 32 for the oldest, r: sigma = |c_r|, mu = y_r f(x_r)
    with the new row already there, Psi(s, m) = s^2 + 2 s - 2 s m. Then Q += Psi and r goes. Theory
    has K(x, x) <= 1; this is not checked.
    """
    Q, M = 0.0, 0
    Qs, Ms, phis = [], [], []

    def update(store: Store, i: int, f: float) -> Store | None:
        nonlocal Q, M
        phis.append(1.0)
        if y[i] * f > 0 or K[i, i] == 0:
            return None
        M += 1
        ids, c = np.append(store.ids, i), np.append(store.coefficients, y[i])
        if len(ids) > budget:
            r = ids[0]
            sigma = y[r] * c[0]
            mu = y[r] * float(np.dot(K[r, ids], c))
            phi = _shrinking(sigma, mu, 15 * M / 32 - Q)
            c = phi * c
            after = y[r] * float(np.dot(K[r, ids], c))
            Q += _psi(phi * sigma, after)
            phis[-1] = phi
            ids, c = ids[1:], c[1:]
        return Store(ids, c)

    def step(store: Store, i: int, f: float) -> Store | None:
        after = update(store, i, f)
        Qs.append(Q)
        Ms.append(M)
        return after

    trace = _store_run(K, y, order, step)
    return ForgetronTrace(*trace, Q=np.array(Qs), M=np.array(Ms), phi=np.array(phis))


def _psi(sigma: float, mu: float) -> float:
    return sigma**2 + 2 * sigma - 2 * sigma * mu


def _shrinking(sigma: float, mu: float, room: float) -> float:
    """The largest phi in (0, 1] with Psi(phi sigma, phi mu) <= room, where room > 0.

    Psi(phi sigma, phi mu) = a phi^2 + b phi is 0 at 0 and has slope b > 0 there. If it is above
    room at 1 it has crossed it once, at the root written so that a = 0 needs no case of its own.
    """
    a, b = sigma**2 - 2 * sigma * mu, 2 * sigma
    if a + b <= room:
        return 1.0
    return min(1.0, 2 * room / (b + np.sqrt(max(0.0, b * b + 4 * a * room))))


def random_budget(
    K: Array, y: Array, order: Indices, *, budget: int, choices: Sequence[int] | Indices
) -> BudgetTrace:
    """Cavallanti, Cesa-Bianchi & Gentile, the Randomized Budget Perceptron.

    Mistakes fill the slots in order; with all taken, the next overwrites the slot that the next of
    ``choices`` names (uniform ones make it theirs). IndexError if there are too few.
    """
    taken = 0

    def update(store: Store, i: int, f: float) -> Store | None:
        nonlocal taken
        if y[i] * f > 0 or K[i, i] == 0:
            return None
        if len(store.ids) < budget:
            return _append(store, i, y[i])
        slot = choices[taken]
        taken += 1
        ids, c = store.ids.copy(), store.coefficients.copy()
        ids[slot], c[slot] = i, y[i]
        return Store(ids, c)

    return _store_run(K, y, order, update)


def expected_mistakes(K: Array, y: Array, *, budget: int) -> float:
    """Mistakes of `random_budget` in the mean over all choices, each of them followed."""
    probabilities: dict[tuple[int, ...], float] = {(): 1.0}  # of the sets of rows that are stored
    mistakes = 0.0
    for i in range(len(y)):
        after: dict[tuple[int, ...], float] = {}
        for stored, chance in probabilities.items():
            outcomes = [stored]
            if y[i] * sum(y[j] * K[j, i] for j in stored) <= 0:
                mistakes += chance
                outcomes = [(*stored, i)]
                if len(stored) == budget:
                    outcomes = [(*stored[:s], *stored[s + 1 :], i) for s in range(budget)]
            for each in outcomes:
                after[each] = after.get(each, 0.0) + chance / len(outcomes)
        probabilities = after
    return mistakes


def projectron(
    K: Array,
    y: Array,
    order: Indices,
    *,
    threshold: float,
    plus: bool,
    budget: int | None = None,
    squared: bool = True,
    rounding: float = 1e-12,
) -> ProjectronTrace:
    """Orabona, Keshet & Caputo, the Projectron, or with ``plus`` the Projectron++.

    Let d be the coefficients of the projection of phi(x) onto the span of the store, and delta the
    rest. A mistake adds y d to the coefficients if |delta| is at most the threshold, and else
    stores x with coefficient y. The Projectron++ also adds step y d where 0 < y f(x) < 1 and the
    loss l = 1 - y f(x) is above |delta| / threshold, with P = |phi(x) - delta|^2 and
    step = min(l / P, 1, 2 (l - |delta| / threshold) / P); this never stores anything.

    With ``squared`` delta^2 takes the place of |delta| in all of this, as in the authors' own
    library, DOGMA; without, it is as the paper has it. A full budget projects whatever delta is.
    The first row, which has nothing to be projected onto, is stored whatever the threshold is.
    A delta^2 of at most ``rounding`` K(x, x) is not told from 0: it counts as 0.
    """
    squares, projected, steps, slacks = [], [], [], []

    def update(store: Store, i: int, f: float) -> Store | None:
        squares.append(np.nan)
        projected.append(False)
        steps.append(0.0)
        slacks.append(0.0)
        m = y[i] * f
        if K[i, i] == 0 or (m > 0 and not (plus and m < 1)):
            return None
        d, square = projection(K, store, i, rounding)
        distance = square if squared else np.sqrt(square)
        squares[-1] = square
        if m > 0:
            step = _plus_step(1 - m, K[i, i] - square, distance, threshold)
        else:
            full = budget is not None and len(store.ids) >= budget
            if len(store.ids) == 0 or (distance > threshold and not full):
                steps[-1] = 1.0
                return _append(store, i, y[i])
            step = 1.0
        if step <= 0:
            return None
        projected[-1], steps[-1], slacks[-1] = True, step, step * np.sqrt(square)
        return Store(store.ids, store.coefficients + step * y[i] * d)

    trace = _store_run(K, y, order, update)
    return ProjectronTrace(
        *trace,
        squares=np.array(squares),
        projected=np.array(projected, dtype=bool),
        steps=np.array(steps),
        mass=np.cumsum(steps),
        slack=np.cumsum(slacks),
    )


# Classes that share a store.


def projection(K: Array, store: Store, i: int, rounding: float) -> tuple[Array, float]:
    """The coefficients of the projection of phi(x_i) onto the store, and delta^2."""
    if len(store.ids) == 0:
        return np.zeros(0), float(K[i, i])
    k = K[store.ids, i]
    d = np.linalg.lstsq(K[np.ix_(store.ids, store.ids)], k, rcond=None)[0]
    square = float(K[i, i] - np.dot(k, d))
    return d, (square if square > rounding * K[i, i] else 0.0)


def _plus_step(loss: float, P: float, distance: float, threshold: float) -> float:
    """The step of the Projectron++ for a margin error that is no mistake, 0 for none."""
    if distance > 0:
        spare = loss - distance / threshold if threshold > 0 else -np.inf
    else:
        spare = loss
    if spare <= 0 or P <= 0:
        return 0.0
    return float(min(loss / P, 1.0, 2 * spare / P))


def _append(store: Store, i: int, coefficient: float) -> Store:
    return Store(np.append(store.ids, i), np.append(store.coefficients, coefficient))


def _store_run(K: Array, y: Array, order: Indices, update: Update) -> BudgetTrace:
    """An update is given the store, the row i and f(x_i), and returns a new store or None."""
    store = Store(np.zeros(0, dtype=np.intp), np.zeros(0))
    history, outputs, mistakes, updated = [], [], [], []
    for i in order:
        f = float(store_outputs(K, store, int(i)))
        outputs.append(f)
        mistakes.append(y[i] * f <= 0)
        after = update(store, int(i), f)
        updated.append(after is not None)
        store = store if after is None else after
        history.append(store)
    return BudgetTrace(
        store,
        history,
        np.array(outputs),
        np.array(mistakes, dtype=bool),
        np.array(updated, dtype=bool),
    )
