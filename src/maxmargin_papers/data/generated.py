"""The artificial data of the papers."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp
from sklearn.utils import check_random_state

from maxmargin._validation import Interval, validate_params

_COUNT = [Interval(Integral, 1, None, closed="left")]

# Of the moving mixtures: their means stay in [-_EDGE, _EDGE]^2, and _DRAWS without success are
# taken for a sign that there is nothing to draw.
_EDGE = 2.0
_DRAWS = 100


@validate_params(
    {
        "n_samples": _COUNT,
        "n_features": _COUNT,
        "k": _COUNT,
        "r": _COUNT,
        "random_state": ["random_state"],
        "return_target": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def make_r_of_k(
    n_samples: int = 1000,
    n_features: int = 100,
    *,
    k: int = 16,
    r: int = 1,
    random_state: Any = None,
    return_target: bool = False,
) -> tuple[Any, ...]:
    """Points of {-1, +1}^n that are positive if at least ``r`` of ``k`` relevant features are +1.

    ::

        y = sign(sum of the k relevant features + k - 2 r + 1)

    The classes are equally likely. The number of +1 among the relevant features is binomial given
    the class, their places and all other features are uniform. With ``r`` far from ``k / 2`` the
    separating hyperplane has a large bias.

    Parameters
    ----------
    n_samples, n_features : int, default=1000, 100
    k, r : int, default=16, 1
        ``1 <= r <= k <= n_features``.
    random_state : int, RandomState instance or None, default=None
    return_target : bool, default=False
        Also return the weights and the bias of the rule.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), of -1 and +1
    w, b : ndarray of shape (n_features,) and float
        Only if ``return_target``.

    References
    ----------
    K. Ishibashi, K. Hatano and M. Takeda, "Online learning of approximate maximum p-norm margin
    classifiers with bias", COLT 2008, section 4.1.

    Examples
    --------
    >>> X, y, w, b = make_r_of_k(r=4, random_state=0, return_target=True)
    >>> b
    9.0
    >>> bool((np.sign(X @ w + b) == y).all())
    True
    """
    if not r <= k <= n_features:
        raise ValueError(
            f"r <= k <= n_features is needed, got r={r}, k={k}, n_features={n_features}."
        )
    random = check_random_state(random_state)
    relevant = random.choice(n_features, k, replace=False)
    y = random.choice([-1, 1], n_samples)
    X = random.choice([-1.0, 1.0], (n_samples, n_features))

    counts = np.arange(k + 1)
    weights = np.exp(np.concatenate([[0.0], np.cumsum(np.log((k - counts[:-1]) / counts[1:]))]))
    ones = np.empty(n_samples, dtype=int)
    for label, possible in ((1, counts >= r), (-1, counts < r)):
        mine = y == label
        probabilities = weights * possible / (weights * possible).sum()
        ones[mine] = random.choice(counts, mine.sum(), p=probabilities)
    # The relevant features with the `ones` smallest of k random numbers are +1.
    ranks = random.uniform(size=(n_samples, k)).argsort(axis=1).argsort(axis=1)
    X[:, relevant] = np.where(ranks < ones[:, None], 1.0, -1.0)
    if not return_target:
        return X, y
    w = np.zeros(n_features)
    w[relevant] = 1.0
    return X, y, w, float(k - 2 * r + 1)


@validate_params(
    {
        "n_samples": _COUNT,
        "n_features": _COUNT,
        "gap": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "return_target": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def make_separable(
    n_samples: int = 10_000,
    n_features: int = 10,
    *,
    gap: float = 0.1,
    random_state: Any = None,
    return_target: bool = False,
) -> tuple[Any, ...]:
    """Uniform points of [0, 10]^n, labelled by a random hyperplane through the centre.

    Points nearer than ``gap`` to the hyperplane are drawn again, so the best margin is at least
    ``gap``.

    Parameters
    ----------
    n_samples, n_features : int, default=10000, 10
    gap : float, default=0.1
    random_state : int, RandomState instance or None, default=None
    return_target : bool, default=False
        Also return the unit normal and the bias of the hyperplane.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), of -1 and +1
    w, b : ndarray of shape (n_features,) and float
        Only if ``return_target``.

    References
    ----------
    K. Zhao and L. Huang, "Simple online learning with approximate max margin and fast convergence",
    section 4.1.

    Examples
    --------
    >>> X, y, w, b = make_separable(500, gap=0.25, random_state=0, return_target=True)
    >>> bool((y * (X @ w + b) >= 0.25).all())
    True
    """
    random = check_random_state(random_state)
    normal = random.normal(size=n_features)
    w = normal / np.linalg.norm(normal)
    b = -5.0 * w.sum()
    if gap >= 0.9 * 5.0 * np.abs(w).sum():
        raise ValueError(f"The 'gap' parameter must leave room in the cube, got {gap}.")
    X = np.empty((0, n_features))
    while X.shape[0] < n_samples:
        drawn = random.uniform(0.0, 10.0, (n_samples, n_features))
        X = np.concatenate([X, drawn[np.abs(drawn @ w + b) >= gap]])
    X = X[:n_samples]
    y = np.where(X @ w + b > 0.0, 1, -1)
    return (X, y, w, b) if return_target else (X, y)


_MOVING = {
    "n_samples": _COUNT,
    "every": _COUNT,
    "n_components": _COUNT,
    "std": [Interval(Real, 0, None, closed="neither")],
    "purity": [Interval(Real, 0.5, 1, closed="left")],
    "random_state": ["random_state"],
    "return_target": ["boolean"],
}


@validate_params(
    {**_MOVING, "step": [Interval(Real, 0, 2 * _EDGE, closed="both")]},
    prefer_skip_nested_validation=True,
)
def make_drifting(
    n_samples: int = 10_000,
    *,
    step: float = 0.1,
    every: int = 10,
    n_components: int = 2,
    std: float = 0.5,
    purity: float = 0.9,
    random_state: Any = None,
    return_target: bool = False,
) -> tuple[Any, ...]:
    """Points of two mixtures of Gaussians in the plane that move a little all the time.

    ::

        p(x | y) = mean of N(x; m, std^2 I) over the means m of class y
        every `every` rows:  m <- m + N(0, step^2 I), reflected into [-2, 2]^2, for all means m

    The means start uniformly in [-2, 2]^2. The classes are equally likely, and a point x of class y
    is drawn again until ``p(x | y) / (p(x | -1) + p(x | +1)) >= purity``: the rows of a period can
    be separated, but often not by a line. Where the means leave a class no such points to speak of
    (none in 100 draws), the class is drawn again too. Where they leave none to both classes (100
    more draws), the points are drawn ever farther from the means, until one is pure.

    Parameters
    ----------
    n_samples : int, default=10000
    step : float, default=0.1
        Standard deviation of a step, for each coordinate of each mean; at most 4, the width of the
        square.
    every : int, default=10
        Number of rows between two steps.
    n_components : int, default=2
        Number of Gaussians of a class.
    std : float, default=0.5
        Standard deviation of the Gaussians.
    purity : float, default=0.9
        Smallest posterior probability of a row's own class, at least 0.5 and below 1. With 0.5 only
        points that the Bayes rule gets wrong are dropped.
    random_state : int, RandomState instance or None, default=None
    return_target : bool, default=False
        Also return the means over time.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        In the order of time.
    y : ndarray of shape (n_samples,), of -1 and +1
    means : ndarray of shape (n_periods, 2, n_components, 2)
        For each period between two steps the means of class -1 and those of class +1. Only if
        ``return_target``.
    period : ndarray of shape (n_samples,)
        The period of each row. Only if ``return_target``.

    See Also
    --------
    make_switching : the same with few large moves.

    References
    ----------
    J. Kivinen, A. Smola and R. Williamson, "Large margin classification for moving targets", 2002,
    section 5, which leaves the numbers open.

    Examples
    --------
    >>> X, y, means, period = make_drifting(95, random_state=0, return_target=True)
    >>> means.shape, period[[0, 9, 10, 94]].tolist()
    ((10, 2, 2, 2), [0, 0, 1, 9])
    >>> bool((np.abs(np.diff(means, axis=0)) < 0.5).all())
    True
    """
    random = check_random_state(random_state)
    periods = -(-n_samples // every)
    means = random.uniform(-_EDGE, _EDGE, (1, 2, n_components, 2))
    steps = random.normal(0.0, step, (periods - 1, 2, n_components, 2))
    # A path with reflections is the free path, folded.
    free = np.cumsum(np.concatenate([means, steps]), axis=0)
    means = np.abs((free - _EDGE) % (4.0 * _EDGE) - 2.0 * _EDGE) - _EDGE
    return _rows_of_mixtures(n_samples, means, every, std, purity, random, return_target)


@validate_params(_MOVING, prefer_skip_nested_validation=True)
def make_switching(
    n_samples: int = 10_000,
    *,
    every: int = 1000,
    n_components: int = 2,
    std: float = 0.5,
    purity: float = 0.9,
    random_state: Any = None,
    return_target: bool = False,
) -> tuple[Any, ...]:
    """Points of two mixtures of Gaussians in the plane that jump now and then.

    ::

        p(x | y) = mean of N(x; m, std^2 I) over the means m of class y
        every `every` rows:  all means m <- uniform in [-2, 2]^2

    The rows of a period are drawn as those of `make_drifting`.

    Parameters
    ----------
    n_samples : int, default=10000
    every : int, default=1000
        Number of rows between two jumps.
    n_components, std, purity, random_state, return_target
        As in `make_drifting`.

    Returns
    -------
    X, y, means, period
        As of `make_drifting`, whose means make many small steps instead.

    Examples
    --------
    >>> X, y, means, period = make_switching(3500, random_state=0, return_target=True)
    >>> X.shape, means.shape, np.bincount(period).tolist()
    ((3500, 2), (4, 2, 2, 2), [1000, 1000, 1000, 500])
    """
    random = check_random_state(random_state)
    periods = -(-n_samples // every)
    means = random.uniform(-_EDGE, _EDGE, (periods, 2, n_components, 2))
    return _rows_of_mixtures(n_samples, means, every, std, purity, random, return_target)


def _rows_of_mixtures(
    n_samples: int,
    means: np.ndarray,
    every: int,
    std: float,
    purity: float,
    random: np.random.RandomState,
    return_target: bool,
) -> tuple[Any, ...]:
    """Rows of which each has at least the posterior ``purity``, given the means of the periods."""
    period = np.arange(n_samples) // every
    side = random.randint(2, size=n_samples)  # 0 for class -1, 1 for class +1
    X = np.empty((n_samples, 2))
    missing = np.arange(n_samples)
    draws, spread = 0, std
    while missing.size > 0:
        if draws >= 5 * _DRAWS:
            raise ValueError(
                f"The 'std' parameter is too large for 'purity', got std={std}, purity={purity}."
            )
        if draws >= _DRAWS:
            side[missing] = random.randint(2, size=missing.size)
        if draws >= 2 * _DRAWS:
            spread *= 1.05  # far out one of the classes is pure, whatever the means are
        around = means[period[missing]]
        at = np.arange(missing.size)
        component = random.randint(means.shape[2], size=missing.size)
        drawn = random.normal(around[at, side[missing], component], spread)
        distances = np.sum(((drawn[:, None, None] - around) / std) ** 2, axis=-1)
        logs = logsumexp(-0.5 * distances, axis=2)
        posteriors = expit(logs[at, side[missing]] - logs[at, 1 - side[missing]])
        found = posteriors >= purity
        X[missing[found]] = drawn[found]
        missing = missing[~found]
        draws += 1
    y = 2 * side - 1
    return (X, y, means, period) if return_target else (X, y)
