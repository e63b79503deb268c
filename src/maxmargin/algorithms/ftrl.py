"""Follow the proximally regularised leader (FTRL-Proximal)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real

from maxmargin._validation import Interval
from maxmargin.algorithms.adagrad import LogisticDescentRule
from maxmargin.algorithms.bound_arguments import POSITIVE, bound
from maxmargin.algorithms.diagonal_learner import DiagonalLearner
from maxmargin.estimator.parameters import NORMS, Facts
from maxmargin.models.spec import DiagonalSpec, Regularization


@dataclass(eq=False, repr=False, kw_only=True)
class FTRL(DiagonalLearner):
    """FTRL-Proximal: follow the regularized leader, with sparse weights.

    The loss is logistic. With its gradient g, in each column j::

        n_j <- n_j + g_j**2
        z_j <- z_j + g_j - (sqrt(n_j) - sqrt(n_j before)) / alpha * w_j
        w_j <- 0                                                             if |z_j| <= l1
               -(z_j - sign(z_j) l1) / ((beta + sqrt(n_j)) / alpha + l2)     otherwise

    With ``scaling="columns"`` this is done with the columns over their largest absolute values so
    far; when such a value grows, z_j and ``sqrt(n_j)`` shrink by the same factor.

    Parameters
    ----------
    alpha : float, default=0.5
        Learning rate, from 1e-50 to 1e50.
    beta : float, default=1.0
        Makes the first steps smaller.
    l1 : float, default=0.0
        Strength of the L1 regularisation, of the columns as they are measured: the larger, the more
        weights are exactly 0, and columns that are rare, or say little, have none.
    l2 : float, default=0.0
        Strength of the L2 regularisation.
    <shared>

    Notes
    -----
    Guarantee: `max_regret`. The weights are not sums of rows, so the certificate only has the bound
    by the norms of the rows; `certify` proves more. `fit` always makes all passes. The gradient of
    a row of weight s is s times as large. With ``average=True`` a weight is 0 only if it always
    was.

    None of the four numbers can change on a fitted model, since z has been made with them.

    References
    ----------
    H. B. McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013, algorithm 1.
    H. B. McMahan, "A survey of algorithms and analysis for adaptive online learning", JMLR 18,
    2017, theorem 2 (regret).

    Examples
    --------
    >>> from maxmargin import FTRL
    >>> X, y = [[0.0, 1000.0, 0.0], [0.002, 1000.0, 0.0], [0.002, 1000.0, 3.0]], [0, 1, 1]
    >>> clf = FTRL(l1=0.5, shuffle=False).fit(X, y)
    >>> clf.predict([[0.005, 0.0, 0.0]]).tolist()
    [1]
    """

    alpha: float = 0.5
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0

    facts = Facts(
        guarantee="regret O(√T)",
        updates="-",
        drift=False,
        paper="McMahan et al. 2013",
        kernel=False,
    )
    metric = "leader"
    _parameter_constraints = {
        "alpha": [NORMS],
        "beta": [Interval(Real, 0, None, closed="left")],
        "l1": [Interval(Real, 0, None, closed="left")],
        "l2": [Interval(Real, 0, None, closed="left")],
    }

    def _spec(self) -> DiagonalSpec:
        numbers = map(float, (self.alpha, self.beta, self.l1, self.l2))
        return replace(super()._spec(), regularization=Regularization(*numbers))

    def _rule(self, p: float) -> LogisticDescentRule:
        return LogisticDescentRule(1.0)

    @staticmethod
    @bound(alpha=POSITIVE)
    def max_regret(
        alpha: float,
        beta: float,
        l1: float,
        l2: float,
        norm: float,
        norm1: float,
        deviation: float,
        gradients: float,
    ) -> float:
        """``l1 |u|_1 + (beta / alpha + l2) / 2 |u|**2 + (D**2 / (2 alpha) + alpha) * gradients``.

        The losses exceed those of any vector u by at most that.

        Parameters
        ----------
        alpha, beta, l1, l2 : float
            Those of the learner, with ``scaling=None`` (or columns whose largest absolute value is
            1 from the first row on).
        norm, norm1 : float
            The Euclidean norm of u, and the sum of its absolute values.
        deviation : float
            D, the largest ``|u_j - w_j|`` of any column before any row.
        gradients : float
            The sum over all columns of ``sqrt(n_j)``, after the last row.

        Examples
        --------
        >>> from maxmargin import FTRL
        >>> numbers = dict(alpha=0.5, beta=1.0, l1=0.0, l2=0.0)
        >>> FTRL.max_regret(**numbers, norm=1.0, norm1=1.0, deviation=1.0, gradients=10.0)
        16.0
        """
        regularised = l1 * norm1 + 0.5 * (beta / alpha + l2) * norm * norm
        return regularised + (deviation * deviation / (2.0 * alpha) + alpha) * gradients
