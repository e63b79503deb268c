"""The largest directional margin, by bisection."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from maxmargin._terminal import Advance, bar
from maxmargin.algorithms.directionalperceptron import DirectionalRule
from maxmargin.algorithms.perceptron import PerceptronRule
from maxmargin.assembly import Model
from maxmargin.core.targets import Binary
from maxmargin.estimator import OnlineClassifier
from maxmargin.facts import Facts

# How often that number is doubled where rounds were given up, unless `max_checks` is given.
MOST_DOUBLINGS = 3
PASSES_PER_ROUND = 400


class Round(NamedTuple):
    """One round of the search.

    Attributes
    ----------
    beta : the directional margin asked for
    found : the one found, or NaN
    checks : rows that were looked at
    outcome : "reached"; "hopeless" if a certificate proved that no vector has that margin; "second
        stage" if that one found a smaller margin; or "given up"
    """

    beta: float
    found: float
    checks: int
    outcome: str


@dataclass(eq=False, repr=False, kw_only=True)
class BisectionPerceptron(OnlineClassifier):
    """The largest directional margin: ask `DirectionalPerceptron` for more and more.

    ::

        beta <- the middle of what was found and what seems out of reach
        ask for beta, starting from the best weights so far
        reached:   more may be possible
        otherwise: less is asked for next; with two stages, a Perceptron with margin beta |w|
                   goes on from the failed weights, and may find a margin better than the best

    A round that cannot succeed would never end. The certificate of the weights is looked at after
    each pass, and a round is broken off as soon as it proves that ``beta`` is out of reach.

    Parameters
    ----------
    precision : float, default=0.01
        The search ends when what was found is within this fraction of what seems out of reach.
    max_checks : int, default=None
        Rows to look at in one round, before it is given up. None means 400 passes. Of two stages
        each gets one half.
    two_stage : bool, default=True
        Profit from failed rounds by a second stage.
    <shared>

    Notes
    -----
    Guarantee: success proves a directional margin above ``beta``, that is, in the space with the
    intercept's coordinate; the larger `intercept_scaling`, the closer it is to the geometric one.
    `partial_fit` makes no sense here. After `fit`, ``rounds_`` is a list of `Round` (one such list
    per class for more than two classes).

    References
    ----------
    P. Tsampouka and J. Shawe-Taylor, "Perceptron-like large margin classifiers", section 3.

    Examples
    --------
    >>> from maxmargin import BisectionPerceptron
    >>> clf = BisectionPerceptron(intercept_scaling=10.0, random_state=0)
    >>> clf.fit([[0.0, 0.0], [0.0, 1.0], [4.0, 0.0]], [0, 0, 1]).certificate_.ratio > 0.98
    True
    """

    precision: float = 0.01
    max_checks: int | None = None
    two_stage: bool = True

    facts = Facts(
        guarantee="the directional margin, to `precision`",
        updates="several rounds",
        drift=False,
        paper="Tsampouka & Shawe-Taylor, section 3",
    )
    _parameter_constraints = {
        **OnlineClassifier._parameter_constraints,
        "precision": [Interval(Real, 0, 1, closed="neither")],
        "max_checks": [Interval(Integral, 1, None, closed="left"), None],
        "two_stage": ["boolean"],
    }

    @property
    def partial_fit(self) -> Any:
        raise AttributeError("BisectionPerceptron needs all rows at once: it has no partial_fit.")

    @property
    def fit_stream(self) -> Any:
        raise AttributeError("BisectionPerceptron needs all rows at once: it has no fit_stream.")

    def _run_passes(self, rows: Any, targets: Any, size: int) -> None:
        random = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        template = self._model
        problems = template.problems()
        labels = targets.labels
        searches = []
        with bar(type(self).__name__, math.inf, "passes", enabled=bool(self.verbose)) as advance:
            for c in range(problems):
                mine = labels if problems == 1 else (labels == c).astype(labels.dtype)
                model = template.single()
                searches.append(Search(self, model, rows, Binary(mine), random, advance).run())
        template.join([search.best for search in searches])
        rounds = [search.rounds for search in searches]
        self.rounds_ = rounds[0] if problems == 1 else rounds
        checks = sum(one.checks for each in rounds for one in each)
        self.n_iter_ = -(-checks // rows.size())
        self.converged_ = all(search.is_proved() for search in searches)
        self._measure(rows, targets)
        template.end()
        self._half_done = False
        separated = all(search.low > 0.0 for search in searches)
        if not self.converged_:
            warnings.warn(
                "BisectionPerceptron gave up rounds that may not have been hopeless: the margin "
                "is not certain to be within `precision` of the best. Increase max_checks."
                if separated
                else "BisectionPerceptron found no separating hyperplane. Increase max_checks, or "
                "the data are not separable.",
                ConvergenceWarning,
                stacklevel=4,
            )


class Search:
    """The bisection for one problem.

    Attributes
    ----------
    best : the model with the largest directional margin so far
    low : that margin
    high : the smallest one that seems out of reach
    proved : the smallest one that is proved to be so
    bound : the smallest proved bound on the geometric margin
    rounds : list of Round
    """

    def __init__(
        self,
        settings: BisectionPerceptron,
        model: Model,
        rows: Any,
        targets: Binary,
        random: np.random.Generator,
        advance: Advance,
    ) -> None:
        self.settings, self.rows, self.targets = settings, rows, targets
        self.random, self.advance = random, advance
        self.order = np.arange(rows.size(), dtype=np.int32)
        passes = PASSES_PER_ROUND
        if settings.max_checks is not None:
            passes = max(1, settings.max_checks // rows.size())
        self.passes_per_stage = max(1, passes // 2) if settings.two_stage else passes
        self.best, self.low, self.high, self.bound = model, 0.0, math.inf, math.inf
        self.proved = math.inf
        self.patience = MOST_DOUBLINGS if settings.max_checks is None else 0
        self.rounds: list[Round] = []

    def run(self) -> Search:
        beta = 0.0  # any separating vector will do at first
        while True:
            self.ask(beta)
            closed = self.low >= (1.0 - self.settings.precision) * self.high
            if closed and not self.is_proved() and self.patience > 0:
                # Rounds were given up: ask again for what is not proved to be out of reach.
                self.patience -= 1
                self.passes_per_stage *= 2
                self.high, closed = self.proved, False
            if closed or self.low <= 0.0:
                self.best.limit(self.bound)
                return self
            beta = 0.5 * (self.low + self.high)

    def is_proved(self) -> bool:
        """Has `precision` been reached for certain?"""
        return 0.0 < (1.0 - self.settings.precision) * self.proved <= self.low

    def ask(self, beta: float) -> None:
        """One round."""
        model = copy.deepcopy(self.best)
        rule: Any = DirectionalRule(beta, 1.0, 0.0, 0.0)
        passes, bound, outcome = self.learn(model, rule, beta)
        if outcome == "given up" and self.settings.two_stage and beta > 0.0:
            length = model.lengths()[0]
            rule = PerceptronRule(beta * length, 1.0)
            more, later, second = self.learn(model, rule, 0.0)
            passes, bound = passes + more, min(bound, later)
            if second == "reached":
                outcome = "second stage"
        found = (
            model.directional_margin(self.rows, self.targets)
            if outcome in ("reached", "second stage")
            else math.nan
        )
        self.rounds.append(Round(beta, found, passes * self.rows.size(), outcome))
        self.proved = min(self.proved, bound)
        self.high = min(self.high, bound)
        if not found >= beta:  # out of reach, or too far for the passes of a round
            self.high = min(self.high, max(beta, self.low))
        self.bound = min(self.bound, float(model.bounds()[0]))
        if found > self.low or self.low <= 0.0:
            self.best, self.low = model, max(self.low, 0.0 if math.isnan(found) else found)
            self.high = max(self.high, self.low)

    def learn(self, model: Model, rule: Any, beta: float) -> tuple[int, float, str]:
        """Passes made, the smallest upper bound seen, and how it ended."""
        bound = math.inf
        for done in range(1, self.passes_per_stage + 1):
            before = model.updates()
            if self.settings.shuffle:
                self.random.shuffle(self.order)
            model.present(self.rows, self.targets, self.order, rule)
            self.advance(1, note=f"asking for {beta:.4g}")
            if model.updates() == before:
                return done, bound, "reached"
            bound = min(bound, model.directional_bound())
            if bound <= beta:
                return done, bound, "hopeless"
        return self.passes_per_stage, bound, "given up"
