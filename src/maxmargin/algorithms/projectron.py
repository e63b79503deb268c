"""The Projectron: a kernel perceptron that projects mistakes onto the examples it has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar, NamedTuple

from maxmargin._validation import Interval
from maxmargin.algorithms.bound_arguments import bound
from maxmargin.core.rule import rule
from maxmargin.estimator import KernelClassifier
from maxmargin.estimator.parameters import Facts, Patience, ScaledIntercept
from maxmargin.models.spec import WeightsSpec

# A step may land on margin 1; what is left by rounding must not count as a loss.
SMALLEST_LOSS = 1e-12


@rule
class ProjectronRule(NamedTuple):
    """Mistakes count fully, other margins below ``margin`` as much as is needed."""

    margin: float

    def active(self, trial):
        return trial.margin <= 0.0 or trial.margin < self.margin

    def step(self, trial):
        if trial.margin > 0.0:
            return 1.0, min(trial.weight, (1.0 - trial.margin) / trial.xx)
        mistakes = trial.repeats(-trial.margin, trial.xx)
        margin, left = trial.margin + mistakes * trial.xx, trial.weight - mistakes
        if left > 0.0 and margin < self.margin:
            return 1.0, mistakes + min(left, (1.0 - margin) / trial.xx)
        return 1.0, mistakes


@dataclass(eq=False, repr=False, kw_only=True)
class Projectron(ScaledIntercept, Patience, KernelClassifier):
    """Projectron and Projectron++: keep a mistake only if it is far from the span of the others.

    Let P be the projection of ``phi(x)`` onto the span of the examples that are stored, and
    ``delta**2`` its squared distance from ``phi(x)``.

    ::

        y f(x) <= 0:      delta**2 > threshold:  store x;   else:  f <- f + y P
        0 < y f(x) < 1:   loss = 1 - y f(x);  if loss > delta**2 / threshold:  f <- f + tau y P
                          tau = min(1, loss / |P|**2, 2 (loss - delta**2 / threshold) / |P|**2)

    The second line is that of the Projectron++.

    Parameters
    ----------
    threshold : float, default=0.1
        Largest squared distance at which a mistake is projected. With 0 and ``plus=False`` this is
        the `Perceptron`, which stores all.
    plus : bool, default=True
        Also learn from margins below 1 (Projectron++), which never stores examples.
    budget : int, default=None
        Maximum number of stored examples, for each problem; once it is reached, all further
        examples are projected. Without it, memory grows as long as rows arrive that are far from
        all stored ones.
    <shared>

    Notes
    -----
    Guarantee for kernels with ``K(x, x) <= 1`` and ``plus=False``, without a `budget`: no more than
    `max_mistakes`. (For the Projectron++ it is proved with the slack ``delta / sqrt(threshold)``;
    ``delta**2 / threshold`` is smaller and learns from more rows.) On a compact set of rows only
    finitely many are ever stored.

    Projections are computed from a Cholesky factor of the stored rows that grows by a line with
    each of them and is never changed otherwise, so no error builds up over a long stream. Nothing
    is added to the diagonal: a row enters the factor only if its squared distance is above 1e-8 of
    ``K(x, x)`` (1e-3 where kernel values are float32); nearer ones count as lying in the span.

    The certificate counts each projected step with its full weight, and what was cut off as slack:
    ``(|w| + sum tau delta) / sum tau`` bounds the best margin.

    References
    ----------
    F. Orabona, J. Keshet and B. Caputo, "Bounded kernel-based online learning", JMLR 10, 2009. As
    in its authors' library DOGMA, the threshold is for the squared distance.

    Examples
    --------
    >>> from maxmargin import Projectron
    >>> X, y = [[0.0], [1.0], [2.0]], ["end", "middle", "end"]
    >>> clf = Projectron(gamma=1.0, shuffle=False).fit(X, y)
    >>> clf.predict([[0.9], [2.3]]).tolist()
    ['middle', 'end']
    """

    threshold: float = 0.1
    plus: bool = True
    budget: int | None = None
    fit_intercept: bool = False
    kernel: object = "rbf"
    gamma: float | str = "first"
    max_iter: int = 20

    facts = Facts(
        guarantee="bounded mistakes, few examples stored",
        updates="(‖g‖² + 2L(g)) / (1 − 2‖g‖√threshold)",
        drift=True,
        paper="Orabona, Keshet & Caputo 2009",
        cost="B²",
    )
    _parameter_constraints = {
        "threshold": [Interval(Real, 0, None, closed="left")],
        "plus": ["boolean"],
        "budget": [Interval(Integral, 1, None, closed="left"), None],
    }
    takes_several: ClassVar[bool] = False

    def _rule(self, p: float) -> ProjectronRule:
        return ProjectronRule(1.0 - SMALLEST_LOSS if self.plus else 0.0)

    def _spec(self) -> WeightsSpec:
        return self._weights_spec(on_budget=True, on_full="project", careful=True)

    @staticmethod
    @bound()
    def max_mistakes(norm: float, losses: float = 0.0, *, threshold: float) -> float:
        """``(|g|**2 + 2 L) / (1 - 2 |g| sqrt(threshold))``: bound on mistakes, for any g.

        Proved for ``plus=False``.
        ``losses`` is the sum of the hinge losses ``max(0, 1 - y g(x))``; infinite for g that are
        too long for the threshold.
        """
        rest = 1.0 - 2.0 * norm * math.sqrt(threshold)
        return (norm**2 + 2.0 * losses) / rest if rest > 0.0 else math.inf
