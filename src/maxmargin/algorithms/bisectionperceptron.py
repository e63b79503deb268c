"""The largest directional margin, by bisection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._terminal import Advance, bar
from maxmargin._validation import Interval
from maxmargin.algorithms.directionalperceptron import DirectionalRule
from maxmargin.algorithms.perceptron import PerceptronRule
from maxmargin.algorithms.romma import ROMMARule
from maxmargin.certificates.bounds import directional_bound, rounding_of_products
from maxmargin.certificates.convex_combinations import MARGIN_ROUNDING
from maxmargin.core.row_scans import lowest_outputs
from maxmargin.core.targets import Binary
from maxmargin.estimator import KernelClassifier
from maxmargin.estimator.parameters import Facts, ScaledIntercept
from maxmargin.models.base import OnlineModel
from maxmargin.models.kernel_model import KernelModel, smallest_margins
from maxmargin.models.linear_model import LinearModel, read_only
from maxmargin.spaces.problem_scalars import ROUNDING
from maxmargin.training.passes import FitPlan, Outcome, certified

# How often that number is doubled where rounds were given up, unless `max_checks` is given.
MOST_DOUBLINGS = 4
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
class BisectionPerceptron(ScaledIntercept, KernelClassifier):
    """Find the largest directional margin, by bisection with `DirectionalPerceptron`.

    ::

        at first:  any vector that separates the rows, by ROMMA
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
        Rows to look at in one round, before it is given up. None means 400 passes, and twice as
        many up to four times where that did not suffice. Of two stages each gets one half.
    two_stage : bool, default=True
        Profit from failed rounds by a second stage.
    <shared>

    Notes
    -----
    Guarantee: success proves a directional margin above ``beta``, that is, in the space with the
    intercept's coordinate; the larger `intercept_scaling`, the closer it is to the geometric one.
    The paper starts with half the smallest norm of a row, and halves its steps; this search starts
    with what ROMMA finds, and ends with a proof. There is no `partial_fit`. After `fit`,
    ``rounds_`` is a list of `Round` (one such list per class for more than two classes).

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
        "precision": [Interval(Real, 0, 1, closed="neither")],
        "max_checks": [Interval(Integral, 1, None, closed="left"), None],
        "two_stage": ["boolean"],
    }
    takes_several: ClassVar[bool] = False

    @property
    def _search(self) -> type[Search]:
        return Search

    @property
    def partial_fit(self) -> Any:
        raise AttributeError("BisectionPerceptron needs all rows at once: it has no partial_fit.")

    @property
    def learn_one(self) -> Any:
        raise AttributeError("BisectionPerceptron needs all rows at once: it has no learn_one.")

    @property
    def fit_stream(self) -> Any:
        raise AttributeError("BisectionPerceptron needs all rows at once: it has no fit_stream.")

    def _uses_weights(self) -> bool:
        return self.soft_margin > 0.0

    def _run_passes(self, model: OnlineModel, rows: Any, targets: Any, plan: FitPlan) -> Outcome:
        problems, labels, random = model.problems(), targets.labels, plan.random()
        kind, searches = (KernelTrial if model.has_supports else LinearTrial), []
        with bar(
            plan.options.name, math.inf, "passes", enabled=bool(plan.options.verbose)
        ) as advance:
            for c in range(problems):
                mine = labels if problems == 1 else (labels == c).astype(labels.dtype)
                single, own = kind.of_one_problem(model), Binary(read_only(mine))
                searches.append(self._search(self, single, rows, own, random, advance).run())
        kind.join(model, [each.best.model for each in searches])
        rounds = [each.rounds for each in searches]
        checks = sum(one.checks for each in rounds for one in each)
        converged = all(each.is_proved() for each in searches)
        separated = all(each.low > 0.0 for each in searches)
        margins = model.margins(rows, targets)
        model.end_fit()
        if model.has_supports:  # bounds rest on a kernel that may be none
            converged &= certified(model, margins, plan.ceiling, plan.shown).bound < math.inf
        warning = ""
        if not converged:
            warning = (
                "BisectionPerceptron gave up rounds that may not have been hopeless: the margin "
                "is not certain to be within `precision` of the best. Increase max_checks."
                if separated
                else "BisectionPerceptron found no separating hyperplane. Increase max_checks, or "
                "the data are not separable."
            )
        more = {"rounds_": rounds[0] if problems == 1 else rounds}
        return Outcome(model, margins, -(-checks // labels.size), converged, warning, more)

    @property
    def rounds_(self) -> Any:
        return self._fitted().more["rounds_"]

    def __learned__(self) -> dict[str, Any]:
        found = super().__learned__()
        if found:
            rounds = self.rounds_ if self.classes_.size > 2 else [self.rounds_]
            found["rounds"] = [[tuple(one) for one in each] for each in rounds]
        return found

    def __relearn__(self, found: dict[str, Any]) -> None:
        rounds = found.pop("rounds", [])
        if not rounds or isinstance(rounds[0], tuple):  # of a single search, in format 1
            rounds = [rounds]
        searches = [[Round(*one) for one in each] for each in rounds]
        super().__relearn__(found)
        if len(searches) != self._fitted().model.problems():
            raise ValueError("rounds: there is not one search for each problem")
        for one in (one for each in searches for one in each):
            fits = type(one.beta) is type(one.found) is float and type(one.checks) is int
            if not (fits and one.checks >= 0 and type(one.outcome) is str):
                raise ValueError(f"rounds: {one} is none")
        more = {"rounds_": searches if len(searches) > 1 else searches[0]}
        self._state = self._fitted()._replace(more=more)


class LinearTrial:
    """A linear model of one problem, and what a round asks of it.

    Margins and lengths are *directional*: relative to all weights, the intercept's included.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    @classmethod
    def of_one_problem(cls, like: Any) -> LinearTrial:
        """At w = 0, for the rows of a fit that ``like`` is a model for."""
        private = like.private_coordinates()
        return cls(LinearModel(like.spec, 1, like.width(), private, like.tail, 2.0))

    def copy(self) -> Any:
        return type(self)(self.model.copy())

    def length(self) -> float:
        return math.sqrt(self.model.linear.scalars.table.norm2[0])

    def margin(self, rows: Any, targets: Any) -> float:
        weights, lowest = self.model.weights(), np.empty(1)
        rounding = rounding_of_products(weights)
        lowest_outputs(rows, targets, weights, self.model.free_intercepts(), rounding, lowest)
        return float(lowest[0] / np.linalg.norm(weights))

    def bound(self) -> float:
        """From all coefficients, and from those since the last snapshot."""
        linear, mine = self.model.linear, self.model.linear.scalars.table[0]
        mass, radius = mine.positive + mine.negative, math.sqrt(self.model.tally.largest_xx[0])
        recent = (mine.positive - mine.mark_positive) + (mine.negative - mine.mark_negative)
        # Each update may have rounded sums by a fraction of all that they hold.
        lost = 8.0 * ROUNDING * (mine.updates + 1.0) * mass * radius
        bound = directional_bound(float(np.linalg.norm(linear.weights[0])) + lost, mass)
        if recent > 0.0 and linear.witness.mark.shape[0]:
            since = float(np.linalg.norm(linear.weights[0] - linear.witness.mark[0]))
            bound = min(bound, directional_bound(since + lost, recent))
        return float(bound)

    def limit(self, bound: float) -> None:
        """Take note of a proved bound on the geometric margin."""
        self.model.linear.scalars.table.bound[0] = bound

    @staticmethod
    def join(model: Any, singles: list[Any]) -> None:
        """Let ``model`` know what models of one problem each have learned."""
        parts = [single.linear for single in singles]
        for c, part in enumerate(parts):
            model.linear.weights[c] = part.weights[0]
            model.linear.scalars.table[c] = part.scalars.table[0]
            for name in ("share", "mark", "mark_share"):
                kept = getattr(model.linear.witness, name)
                kept[c : c + 1] = getattr(part.witness, name)[: kept.shape[0]]
        join_tallies(model.tally, [single.tally for single in singles])


class KernelTrial(LinearTrial):
    """The same for a kernel model in the middle of a fit."""

    @classmethod
    def of_one_problem(cls, like: Any) -> KernelTrial:
        model = KernelModel(like.spec, 1, like.width(), like.tail, like.kernel, like.products)
        model.begin_fit(like.training.points)
        return cls(model)

    def length(self) -> float:
        return root(self.model.scalars.table.norm2[0])

    def margin(self, rows: Any, targets: Any) -> float:
        weights, outputs, _ = self.model.over_training_rows()
        length = root((weights * outputs).sum())
        return float(smallest_margins(outputs, targets.labels)[0] / length)

    def bound(self) -> float:
        mine = self.model.scalars.table[0]
        mass = mine.scale * (mine.positive + mine.negative)
        return float(directional_bound(root(mine.norm2), mass))

    def limit(self, bound: float) -> None:
        self.model.scalars.table.bound[0] = bound

    @staticmethod
    def join(model: Any, singles: list[Any]) -> None:
        for c, single in enumerate(singles):
            single.over_training_rows()  # brings all up to date
            model.scalars.table[c] = single.scalars.table[0]
            model.training.coefs[c] = single.training.coefs[0]
            model.training.outputs[c] = single.training.outputs[0]
        join_tallies(model.tally, [single.tally for single in singles])


def root(square: float) -> float:
    """Of a squared length; NaN if that is negative, which a kernel does not allow."""
    return math.sqrt(square) if square >= 0.0 else math.nan


def join_tallies(tally: np.recarray, parts: list[np.recarray]) -> None:
    """The counts of several learners together, into ``tally``."""
    tally.trials[0] = sum(part.trials[0] for part in parts)
    tally.mistakes[0] = sum(part.mistakes[0] for part in parts)
    tally.largest_xx[0] = max(part.largest_xx[0] for part in parts)


class Search:
    """The bisection for one problem.

    Attributes
    ----------
    best : what has the largest directional margin so far
    low : that margin
    high : the smallest one that seems out of reach
    proved : the smallest one that is proved to be so
    bound : the smallest proved bound on the geometric margin
    rounds : list of Round
    """

    def __init__(
        self,
        settings: BisectionPerceptron,
        first: LinearTrial,
        rows: Any,
        targets: Binary,
        random: np.random.Generator,
        advance: Advance,
    ) -> None:
        self.settings, self.rows, self.targets = settings, rows, targets
        self.random, self.advance = random, advance
        self.order = np.arange(targets.labels.size, dtype=np.int32)
        passes = PASSES_PER_ROUND
        if settings.max_checks is not None:
            passes = max(1, settings.max_checks // self.order.size)
        self.passes_per_round = passes
        self.best, self.low, self.high, self.bound = first, 0.0, math.inf, math.inf
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
                self.passes_per_round *= 2
                self.high, closed = self.proved, False
            if closed:
                self.best.limit(self.bound)
                return self
            beta = 0.5 * (self.low + self.high) if self.low > 0.0 else 0.0

    def is_proved(self) -> bool:
        """Has `precision` been reached for certain?"""
        highest = self.proved * (1.0 + MARGIN_ROUNDING)  # unless the kernel is none
        return 0.0 < (1.0 - self.settings.precision) * self.proved <= self.low <= highest

    def ask(self, beta: float) -> None:
        """One round."""
        trial, most = self.best.copy(), self.passes_per_round
        rule: Any = DirectionalRule(beta, 1.0, 0.0, 0.0)
        if beta == 0.0:
            rule = ROMMARule(1.0, anew=False)
        elif self.settings.two_stage:
            most = max(1, most // 2)
        passes, bound, outcome = self.learn(trial, rule, beta, most)
        if outcome == "given up" and self.settings.two_stage and beta > 0.0:
            rule = PerceptronRule(beta * trial.length(), 1.0)
            more, later, second = self.learn(trial, rule, 0.0, most)
            passes, bound = passes + more, float(np.minimum(bound, later))
            if second == "reached":
                outcome = "second stage"
        found = (
            trial.margin(self.rows, self.targets)
            if outcome in ("reached", "second stage")
            else math.nan
        )
        if beta == 0.0 and outcome == "reached" and not found > 0.0:
            # ROMMA has proved that no margin is above rounding.
            outcome, found, self.patience = "hopeless", math.nan, 0
        self.rounds.append(Round(beta, found, passes * self.order.size, outcome))
        self.proved = float(np.minimum(self.proved, bound))
        self.high = min(self.high, bound)
        if not found >= beta:  # out of reach, or too far for the passes of a round
            self.high = min(self.high, max(beta, self.low))
        self.bound = float(np.minimum(self.bound, trial.model.bounds()[0]))  # NaN if one is
        if found > self.low or self.low <= 0.0:
            self.best, self.low = trial, max(self.low, 0.0 if math.isnan(found) else found)
            self.high = max(self.high, self.low)
        if math.isnan(self.proved):  # negative squares: the kernel is none, and nothing is sought
            self.high, self.patience = self.low, 0

    def learn(
        self, trial: LinearTrial, rule: Any, beta: float, most: int
    ) -> tuple[int, float, str]:
        """Passes made, the smallest upper bound seen, and how it ended."""
        bound, model = math.inf, trial.model
        for done in range(1, most + 1):
            before = model.updates()
            if self.settings.shuffle:
                self.random.shuffle(self.order)
            model.learn_from(self.rows, self.targets, self.order, rule)
            self.advance(1, note=f"asking for {beta:.4g}")
            if model.updates() == before:
                return done, bound, "reached"
            bound = float(np.minimum(bound, trial.bound()))  # NaN if one is
            if bound <= beta:
                return done, bound, "hopeless"
        return most, bound, "given up"
