"""The Forgetron: a kernel perceptron that forgets its oldest examples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

from maxmargin._validation import Interval
from maxmargin.algorithms.bound_arguments import bound
from maxmargin.algorithms.perceptron import PerceptronRule
from maxmargin.estimator import KernelClassifier
from maxmargin.estimator.parameters import Facts, Patience, ScaledIntercept


@dataclass(eq=False, repr=False, kw_only=True)
class Forgetron(ScaledIntercept, Patience, KernelClassifier):
    """Forgetron, self-tuned: a kernel perceptron with at most `budget` examples.

    A mistake is added as in the `Perceptron`. If that is one example too many, all coefficients
    shrink by the largest phi in (0, 1] that makes it cheap to remove the oldest one, r:

    ::

        psi = a**2 + 2 a - 2 a y_r f(x_r)    where a = phi |a_r| and f = phi f, after the mistake
        Q + psi <= 15/32 * mistakes;         Q <- Q + psi

    Parameters
    ----------
    budget : int, default=100
        Maximum number of stored examples, for each class if there are more than two.
    <shared>

    Notes
    -----
    Guarantee for kernels with ``K(x, x) <= 1``, like "rbf" without intercept: no more than
    `max_mistakes`, compared with any function that is no longer than `max_norm`.

    The last hypothesis depends on the last examples; see `docs/budgets.md`. Each update costs
    ``budget`` operations besides the kernel values of the example; memory is that of the examples
    and of ``budget**2`` kernel values, for each problem.

    References
    ----------
    O. Dekel, S. Shalev-Shwartz and Y. Singer, "The Forgetron: a kernel-based perceptron on a
    budget", SIAM Journal on Computing 37, 2008, section 5.

    Examples
    --------
    >>> from maxmargin import Forgetron
    >>> X, y = [[0.0], [1.0], [2.0]], ["end", "middle", "end"]
    >>> clf = Forgetron(budget=10, gamma=1.0, shuffle=False).fit(X, y)
    >>> clf.predict([[0.9], [2.3]]).tolist()
    ['middle', 'end']
    """

    budget: int = 100
    fit_intercept: bool = False
    kernel: object = "rbf"
    gamma: float | str = "first"
    max_iter: int = 20

    facts = Facts(
        guarantee="bounded mistakes with bounded memory",
        updates="2‖g‖² + 4L(g), for ‖g‖ ≤ ¼√((B+1)/ln(B+1))",
        drift=True,
        paper="Dekel, Shalev-Shwartz & Singer 2008",
        cost="B",
    )
    _parameter_constraints = {
        "budget": [Interval(Integral, 1, None, closed="left")],
    }
    takes_several: ClassVar[bool] = False

    def _rule(self, p: float) -> PerceptronRule:
        return PerceptronRule(margin=0.0, rate=1.0)

    @staticmethod
    @bound(nothing=0.0)
    def max_norm(budget: int) -> float:
        """``sqrt((B + 1) / ln(B + 1)) / 4``: the largest norm of comparison functions.

        Proved for a budget B of at least 84.
        """
        return 0.25 * math.sqrt((budget + 1) / math.log(budget + 1)) if budget >= 84 else 0.0

    @staticmethod
    @bound()
    def max_mistakes(norm: float, losses: float = 0.0, *, budget: int) -> float:
        """``2 |g|**2 + 4 L``: bound on mistakes, for every g with norm up to `max_norm`.

        ``losses`` is the sum of the hinge losses ``max(0, 1 - y g(x))``, ``budget`` the learner's;
        infinite for g that are too long for it.
        """
        return 2.0 * norm**2 + 4.0 * losses if norm <= Forgetron.max_norm(budget) else math.inf
