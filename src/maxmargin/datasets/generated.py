"""The artificial data of the papers."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, validate_params

_COUNT = [Interval(Integral, 1, None, closed="left")]


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
        chances = weights * possible / (weights * possible).sum()
        ones[mine] = random.choice(counts, mine.sum(), p=chances)
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
