"""The random budget perceptron: a kernel perceptron that forgets any of its examples."""

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
from maxmargin.models.spec import WeightsSpec


@dataclass(eq=False, repr=False, kw_only=True)
class RandomBudgetPerceptron(ScaledIntercept, Patience, KernelClassifier):
    """Kernel perceptron with at most `budget` examples: a new one replaces any of the others.

    ::

        if y f(x) <= 0:  f <- f + y K(x, .), in place of an example chosen at random

    Parameters
    ----------
    budget : int, default=100
        Maximum number of stored examples, for each class if there are more than two.
    <shared>

    Notes
    -----
    Guarantee for kernels with ``K(x, x) <= 1``, like "rbf" without intercept: in expectation, no
    more than `expected_mistakes`, compared with any function that is shorter than ``sqrt(budget)``,
    or with a sequence of them.

    `random_state` determines the choices. One number is drawn for each row, needed or not, so they
    do not depend on how a stream is cut; with several classes all problems use the same one.

    References
    ----------
    G. Cavallanti, N. Cesa-Bianchi and C. Gentile, "Tracking the best hyperplane with a simple
    budget perceptron", Machine Learning 69, 2007.

    Examples
    --------
    >>> from maxmargin import RandomBudgetPerceptron
    >>> X, y = [[0.0], [1.0], [2.0]], ["end", "middle", "end"]
    >>> clf = RandomBudgetPerceptron(budget=10, gamma=1.0, shuffle=False).fit(X, y)
    >>> clf.predict([[0.9], [2.3]]).tolist()
    ['middle', 'end']
    """

    budget: int = 100
    fit_intercept: bool = False
    kernel: object = "rbf"
    gamma: float | str = "first"
    max_iter: int = 20

    facts = Facts(
        guarantee="few mistakes in expectation, with bounded memory",
        updates="-",
        drift=True,
        paper="Cavallanti, Cesa-Bianchi & Gentile 2007",
        cost="B",
    )
    _parameter_constraints = {
        "budget": [Interval(Integral, 1, None, closed="left")],
    }
    takes_several: ClassVar[bool] = False

    def _rule(self, p: float) -> PerceptronRule:
        return PerceptronRule(margin=0.0, rate=1.0)

    def _spec(self) -> WeightsSpec:
        return self._weights_spec(on_full="random", lengths=False)

    @staticmethod
    @bound()
    def expected_mistakes(
        norm: float, losses: float = 0.0, *, budget: int, drift: float = 0.0
    ) -> float:
        """Bound on the expected number of mistakes, on any rows; proof in ``docs/theory.md``.

        The larger root m of ``(m - A)**2 = |g|**2 (2 m + m**2 / budget)`` where ``A = losses +
        budget * drift``; without losses and drift ``2 |g|**2 / (1 - |g|**2 / budget)``.

        Parameters
        ----------
        norm : float
            The length of a function g, or of the longest of a sequence; the bound is infinite
            unless it is below ``sqrt(budget)``.
        losses : float
            The sum of its hinge losses ``max(0, 1 - y g(x))`` over all trials.
        budget : int
            That of the learner.
        drift : float
            How far the sequence moves: the sum of the distances of one function from the next.

        Examples
        --------
        >>> from maxmargin import RandomBudgetPerceptron
        >>> RandomBudgetPerceptron.expected_mistakes(5.0, budget=100)
        66.66666666666667
        """
        square, cost = norm**2, losses + budget * drift
        rest = 1.0 - square / budget
        if rest <= 0.0:
            return math.inf
        half = cost + square
        return (half + math.sqrt(max(half**2 - rest * cost**2, 0.0))) / rest
