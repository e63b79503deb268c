"""The passes of a fit: the order of the rows, and when they give up."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from maxmargin._terminal import bar
from maxmargin.certificates import Certificate
from maxmargin.certificates.convex_combinations import presuming_mercer
from maxmargin.certificates.directed_rounding import text_down, text_up
from maxmargin.core.targets import weights_in
from maxmargin.core.trace import NO_TRACE
from maxmargin.models.base import Certified, OnlineModel
from maxmargin.training.inputs import shown
from maxmargin.training.protocol import Options
from maxmargin.training.state import Advance, Rows, Rule, State, Targets

# A call of the compiled loop takes some dozen milliseconds: short enough for progress bars and
# interruptions, long enough to hide the overhead of the call.
VALUES_PER_CALL = 2**24
# A row is recent if it caused an update within this number of full passes.
MEMORY = 50
# Rows learned between two full passes, as a multiple of all rows: less at first, because easy
# problems may be solved already, and only a full pass shows that.
FIRST_PASSES, FIRST_SHARE, SHARE = 3, 4, 20
# Fewer rows than this are learned several times in one call of the compiled loop.
LEAST_ROWS = 2048


class FitPlan(NamedTuple):
    """The parameters of the passes of a fit.

    Attributes
    ----------
    values : number of values in all rows
    ceiling : an upper bound on every margin
    shown : the visible problems
    wanted_margin : passes end when a certificate proves that no margin is as large
    promised_margin : if the best margin is at least this, a theorem promises convergence, so passes
        go on until a certificate proves that none is; infinite without such a theorem
    """

    options: Options
    values: int
    ceiling: float
    shown: slice
    wanted_margin: float = 0.0
    promised_margin: float = np.inf

    @property
    def separable(self) -> bool:
        """True if every data set is separable, thanks to a soft margin."""
        return self.options.soft_margin > 0.0

    def random(self) -> np.random.Generator:
        random = check_random_state(self.options.random_state)
        return np.random.default_rng(random.randint(2**31 - 1))


class Outcome(NamedTuple):
    """The result of the passes; ``model`` is the given one or a copy of it."""

    model: OnlineModel
    margins: np.ndarray
    n_iter: int
    converged: bool
    warning: str = ""
    more: dict[str, Any] = {}  # attributes of a single kind of learner


RunPasses = Callable[[OnlineModel, Rows, Targets, FitPlan], Outcome]


def run_passes(
    model: OnlineModel, rows: Rows, targets: Targets, rule: Rule, plan: FitPlan
) -> Outcome:
    """Learn until convergence or `max_iter`."""
    passes = Passes(model, rows, targets, rule, plan)
    options = plan.options
    shown = bar(options.name, options.max_iter, "passes") if options.verbose else nullcontext()
    with shown as advance:
        passes.run(advance)
    progress = passes.progress
    if progress is not None and progress.ended and progress.best is not None:
        model = progress.best
    margins = model.margins(rows, targets)
    model.end_fit()
    converged, warning = _conclusion(passes, model, margins)
    return Outcome(model, margins, passes.n_iter, converged, warning)


def _conclusion(passes: Passes, model: OnlineModel, margins: np.ndarray) -> tuple[bool, str]:
    """Whether the passes converged, and a warning if they did not do what was asked for."""
    plan, options, progress = passes.plan, passes.plan.options, passes.progress
    certificate = certified(model, margins, plan.ceiling, plan.shown)
    # Averaged weights may misclassify a row although there is no update left.
    stuck = passes.converged and certificate.margin < 0.0 and not model.spec.averages()
    converged = passes.converged and certificate.bound > 0.0 and not stuck
    unproved = options.tol is not None and not certificate.ratio >= 1.0 - options.tol
    if progress is not None and progress.ended:
        return converged, progress.complaint(
            options.name, certificate.bound, passes.n_iter, options.unset, model.spec.averages()
        )
    if converged and not unproved:
        return converged, ""
    p = float(np.min(model.p))  # a vote has several
    return converged, shortfall(plan, certificate, passes.n_iter, stuck, model.is_full(), p)


def certified(
    model: Certified, margins: np.ndarray, ceiling: float, shown: slice, features: int = 0
) -> Certificate:
    """The certificate of a model with these margins; ``features`` adds evidence."""
    bounds = model.bounds()
    if model.has_supports and not model.kernel.is_mercer():  # type: ignore[attr-defined]
        bounds = presuming_mercer(bounds, margins, ceiling)
    else:
        bounds = np.where(bounds < np.inf, bounds, ceiling)
    sums = model.evidence(features)[shown] if features else []
    return Certificate.weakest(margins[shown], bounds[shown], sums)


def certificate_of(state: State, features: int = 0) -> Certificate:
    """The certificate of a state; ``features`` adds evidence."""
    assert isinstance(state.model, Certified)
    return certified(state.model, state.known_margins(), state.ceiling, shown(state), features)


def diverged(name: str) -> str:
    return (
        f"{name} diverged: its weights are not finite any more (a rate, or a p, may be too large "
        "for the data, or intercept_scaling or soft_margin too far from the size of the rows)."
    )


def warn_of(text: str) -> None:
    """Warn the caller of a fit, unless the text is empty."""
    if text:
        warnings.warn(text, ConvergenceWarning, stacklevel=3)


class Passes:
    """Full passes, and between them passes over rows that recently caused updates."""

    def __init__(
        self, model: OnlineModel, rows: Rows, targets: Targets, rule: Rule, plan: FitPlan
    ) -> None:
        self.model, self.rows, self.targets, self.rule, self.plan = model, rows, targets, rule, plan
        self.count = targets.labels.shape[0]
        self.rows_per_call = max(1, VALUES_PER_CALL * self.count // max(plan.values, 1))
        self.schedule = Schedule(self.count, plan.options.shuffle, plan.random())
        self.learned, self.n_iter, self.converged = 0, 0, False
        self.progress: MistakeProgress | None = None
        patience = plan.options.n_iter_no_change
        may_give_up = plan.options.settles and not plan.separable and not model.is_full()
        if may_give_up and patience is not None:
            self.progress = MistakeProgress(self.count, patience, self._is_hopeless)
        self.next_check = 1  # number of passes after which to compute the certificate again

    def run(self, advance: Advance | None) -> None:
        """Alternate full passes and passes over recent rows, until a full pass is the last."""
        model = self.model
        while True:
            mistakes = model.mistakes()
            updates = self.full_pass(advance)
            if not model.is_finite():
                raise ValueError(diverged(self.plan.options.name))
            self.converged = self._has_converged(updates)
            if self.converged or self.n_iter >= self.plan.options.max_iter:
                return
            made = model.mistakes() - mistakes
            if self.progress is not None and self.progress.ends_with(made):
                return
            if self._has_no_margin(self.plan.wanted_margin):
                if made == 0 or self.progress is None:
                    return
                self.progress.hurry()  # look for weights with few errors instead
            self._learn_recent(made, advance)

    def _has_converged(self, updates: int) -> bool:
        """True if the last full pass, which made ``updates``, ends the fit."""
        options = self.plan.options
        converged = options.settles and updates == 0
        if options.tol is not None and self.n_iter >= self.next_check:
            margins = self.model.margins(self.rows, self.targets)
            ratio = certified(self.model, margins, self.plan.ceiling, self.plan.shown).ratio
            converged |= ratio > 0.0 and ratio >= 1.0 - options.tol
            # A check costs a pass: check whenever the number of passes has grown by an eighth.
            self.next_check = self.n_iter + max(1, self.n_iter // 8)
        return bool(converged)

    def _is_hopeless(self) -> bool:
        """True if no margin is large enough for a theorem to promise convergence."""
        promised = self.plan.promised_margin
        return promised == np.inf or self._has_no_margin(promised)

    def _has_no_margin(self, wanted: float) -> bool:
        """True if a certificate proves that no margin is as large as ``wanted``."""
        plan, model = self.plan, self.model
        if wanted == 0.0 or model.bounds()[plan.shown].min() >= wanted:
            return False
        margins = model.margins(self.rows, self.targets)
        return certified(model, margins, plan.ceiling, plan.shown).bound < wanted

    def _learn_recent(self, mistakes: int, advance: Advance | None) -> None:
        """Learn from recent rows after a full pass with so many mistakes."""
        options = self.plan.options
        # Presenting inseparable rows more often would give them more weight than they have.
        separated = self.plan.separable or mistakes == 0
        if separated and options.settles and options.shuffle and not self.model.spec.averages():
            # Leave one full pass for the end.
            most = (options.max_iter - self.n_iter - 1) * self.count
            for order in self.schedule.recent(most):
                self.learn(order, advance)

    def full_pass(self, advance: Advance | None) -> int:
        """Learn from all rows, comparing errors if progress is doubtful; returns the updates."""
        order, progress = self.schedule.full_pass_order(), self.progress
        if progress is None or not progress.compares(self.model):
            return self.learn(order, advance)
        return progress.compared(self, order, advance)

    def learn(self, order: np.ndarray, advance: Advance | None) -> int:
        """Learn from the rows ``order``; returns the number of updates."""
        model, schedule, before = self.model, self.schedule, self.model.updates()
        for start in range(0, order.size, self.rows_per_call):
            part = order[start : start + self.rows_per_call]
            trace = NO_TRACE._replace(touched=schedule.touched, stamp=schedule.stamp)
            model.learn_from(self.rows, self.targets, part, self.rule, trace)
            self.learned += part.size
            if advance is not None:
                advance(part.size / self.count, note=f"{model.updates():,} updates")
        self.n_iter = -(-self.learned // self.count)
        return model.updates() - before


class Schedule:
    """Orders of presentation: full passes, and between them recent rows.

    Near the end most rows cause no more updates. So after a full pass, the rows that recently
    caused one come again, narrowed down to those that just did, until there are no updates
    or their share of the work is used up. They are shuffled once: shuffling them each time takes as
    long as presenting them, and needs more presentations (Adult, 32 561 rows, PUMMA: twice as
    many). Any order keeps the guarantees of the learners; only a full pass without updates counts
    as convergence.

    The loop writes to ``touched`` the ``stamp`` of the last order in which a row caused an update.
    """

    def __init__(self, size: int, shuffle: bool, random: np.random.Generator) -> None:
        kind = np.int32 if size < 2**31 else np.int64
        self._everything = np.arange(size, dtype=kind)
        self._last_pass = np.full(size, -MEMORY, dtype=np.int32)
        self._shuffle, self._random, self._passes = shuffle, random, 0
        self.touched = np.zeros(size, dtype=np.int32)
        self.stamp = 0

    def full_pass_order(self) -> np.ndarray:
        """All rows, for a full pass."""
        if self._shuffle:
            self._random.shuffle(self._everything)
        self._passes += 1
        self.stamp += 1
        return self._everything

    def recent(self, most: int) -> Iterator[np.ndarray]:
        """Orders of rows that recently caused an update; at most ``most`` rows in all."""
        self._last_pass[self.touched == self.stamp] = self._passes
        recent = np.flatnonzero(self._last_pass > self._passes - MEMORY)
        recent = recent.astype(self._everything.dtype)
        self._random.shuffle(recent)
        share = FIRST_SHARE if self._passes < FIRST_PASSES else SHARE
        chosen, left = recent, min(most, share * self.touched.size)
        while chosen.size and left > 0:
            order = np.tile(chosen, -(-LEAST_ROWS // chosen.size))[:most]
            self.stamp += 1
            yield order
            left -= order.size
            most -= order.size
            moved = chosen[self.touched[chosen] == self.stamp]
            self._last_pass[moved] = self._passes
            if moved.size == 0 and chosen is recent:
                return
            chosen = moved if moved.size else recent


# A fit gives up only if each half of its passes has at least so many rows: on small data
# many passes take no time, ...
LEAST_LEARNED = 100_000
# ... and if the second half certainly has more than this share of the mistakes of the first. Of
# 400 fits of Perceptron and AMIRA(epsilon=1) to 10 000 separable rows (make_separable, gap=0.12),
# none had more than 0.63 after 20 or more passes; with 5 to 40 % of wrong labels seven learners
# had 0.86 to 1.01 after ten.
NO_PROGRESS = 0.8
# How many standard deviations of a number of mistakes chance explains.
CHANCE = 2.0
# When in doubt, it compares weights so many times in a pass, by their errors on so many rows.
LOOKS, LOOKED_AT = 8, 2**14
# A bound below this fraction of the largest norm says that no margin is larger than rounding.
BELOW_ROUNDING = 1e-10
# Below this p rounding moves a weight by 1e-5 or more (2e-16 to the power p - 1).
NEAR_ONE = 1.3


class MistakeProgress:
    """Decides whether full passes still make fewer mistakes; if not, rows are hardly separable.

    The second half of all passes is compared with the first. On separable rows the mistakes of a
    pass fall like a power of its number, so the ratio of the halves stays well below 1 (for
    ``1 / sqrt(pass)`` it is 0.41) until the last mistake is made. With label noise they soon stay
    the same. Few mistakes need many passes until the ratio is certain.

    Attributes
    ----------
    doubtful : do mistakes seem to stay the same, by half of the passes that would prove it?
    ended : is it time to give up?
    hopeless : where a theorem promises an end for rows with some margin: is it proved that no
        margin is so large? If not, nothing is doubtful.
    best, errors : the model with the fewest errors since it is doubtful, and their share
    """

    def __init__(
        self, count: int, n_iter_no_change: int, hopeless: Callable[[], bool] = lambda: True
    ) -> None:
        self.hopeless = hopeless
        self.n_iter_no_change = n_iter_no_change
        self.least_passes = max(n_iter_no_change, LEAST_LEARNED / count)
        self.totals = [0]  # mistakes of all passes so far, after each of them
        self.doubtful = self.ended = False
        self.best: Any = None
        self.errors = np.inf

    @property
    def half(self) -> int:
        """Half of the passes made."""
        return (len(self.totals) - 1) // 2

    def ends_with(self, mistakes: int) -> bool:
        """Add the mistakes of one more full pass; True if it is time to give up."""
        self.totals.append(self.totals[-1] + mistakes)
        start, middle, end = (self.totals[-1 - k * self.half] for k in (2, 1, 0))
        before, recent = middle - start, end - middle
        stagnates = 2 * self.half >= self.least_passes and recent > NO_PROGRESS * before
        self.doubtful = stagnates and self.hopeless()
        certain = recent - CHANCE * np.sqrt(before + recent) > NO_PROGRESS * before
        self.ended = self.doubtful and bool(certain) and self.half >= self.least_passes
        if not self.doubtful:
            self.best, self.errors = None, np.inf
        return self.ended

    def hurry(self) -> None:
        """Give up on small data as soon as on large ones: what is asked for is out of reach."""
        self.least_passes = self.n_iter_no_change

    def compares(self, model: OnlineModel) -> bool:
        """Is it time to look for the best weights? Means, and those of kernels, stay the last."""
        return self.doubtful and not (model.spec.averages() or model.has_supports)

    def compared(self, passes: Passes, order: np.ndarray, advance: Advance | None) -> int:
        """Let ``passes`` learn these rows, and keep a copy of the model with the fewest errors.

        The number of updates.
        """
        model, updates = passes.model, 0
        for part in np.array_split(order, LOOKS):
            updates += passes.learn(part, advance)
            errors = _errors(model, passes.rows, passes.targets, passes.rule, passes.plan.shown)
            if errors < self.errors:
                self.best, self.errors = model.copy(), errors
        return updates

    def complaint(
        self, name: str, bound: float, n_iter: int, unset: Sequence[str], averages: bool
    ) -> str:
        """What a user should know; ``unset`` are the parameters that help and are not set."""
        kept = ""
        if averages:
            kept = " The weights are the average of those on the way, which suits such rows."
        if self.best is not None:
            kept = (
                " The weights are those with the fewest errors on the way, "
                f"{100.0 * self.errors:.1f} % of the rows."
            )
        proved = ""
        if bound < np.inf:
            most = text_up(bound, 2)
            proved = f" No hyperplane separates these rows by more than {most}, if any does."
        ways = f"set {' or '.join(unset)}, or use" if unset else "use"
        return (
            f"{name} gave up after {n_iter} passes: the last {self.half} made hardly fewer "
            f"mistakes than those before.{proved}{kept} If the rows cannot be separated, {ways} "
            "MaxMargin; if they can, set n_iter_no_change=None."
        )


def _errors(model: OnlineModel, rows: Rows, targets: Targets, rule: Rule, shown: slice) -> float:
    """The share of rows that the model is wrong about, as it is now; of very many, of some.

    Rows that count more, count more here.
    """
    count = targets.labels.shape[0]
    some = np.arange(0, count, -(-count // LOOKED_AT), dtype=np.int32)
    history = np.empty((some.size, model.problems() + 1))
    model.learn_from(rows, targets, -1 - some, rule, NO_TRACE._replace(history=history))
    outputs = history[:, :-1][:, shown]
    labels = targets.labels[some]
    if labels.ndim == 2:
        wrong = ((outputs >= 0.0) != labels).any(axis=1)
    else:
        codes = outputs.argmax(axis=1) if outputs.shape[1] > 1 else outputs[:, 0] >= 0.0
        wrong = codes != labels
    weights = weights_in(targets)
    return float(np.average(wrong, weights=None if weights is None else weights[some]))


def shortfall(
    plan: FitPlan, certificate: Certificate, n_iter: int, stuck: bool, forgets: bool, p: float
) -> str:
    """What a user should know about a fit that did not reach what was asked for."""
    options, ratio = plan.options, certificate.ratio
    margin, bound = certificate.margin, certificate.bound
    name, wanted = options.name, 1.0 - (options.tol or 0.0)
    if options.tol is not None and not ratio >= wanted:
        return (
            f"{name} certifies {text_down(np.nan_to_num(ratio), 4)} of the best margin after "
            f"{n_iter} passes, less than the {wanted:.4f} that tol={options.tol} asks for. If no "
            "update was left to make, ask the rule for more: a smaller delta, epsilon or alpha."
        )
    if 0.0 < bound < plan.wanted_margin:
        return (
            f"{name} proves after {n_iter} passes that no margin exceeds {text_up(bound, 4)}: the "
            f"margin of {plan.wanted_margin:.4g} that is asked for is out of reach. Ask for "
            "less; MaxMargin finds the largest margin."
        )
    if bound == 0.0:
        return f"{name} met the same row with two labels: the data are not separable."
    if stuck and bound <= BELOW_ROUNDING * plan.ceiling:
        return (
            f"{name} proves that no margin exceeds {text_up(bound, 2)}, which is below "
            "rounding: the data are not separable. Set soft_margin, or use MaxMargin."
        )
    if stuck:
        return (
            f"{name} has no update left to make, but the smallest margin is "
            f"{text_down(margin, 3)}: the rows are not separated. The certificate proves only "
            f"that no margin exceeds {text_up(bound, 3)}. MaxMargin finds the largest margin; "
            "soft_margin is for rows that cannot be separated."
        )
    # With rows forgotten there may be updates for ever.
    if options.settles and options.max_iter > 1 and not forgets:
        other = "" if plan.separable else "; if the data are not separable, set soft_margin"
        if p < NEAR_ONE:
            other += f". With p={p:g} rounding may cause updates without end: increase p or delta"
        return f"{name} still made updates in pass {n_iter}. Increase max_iter{other}."
    return ""
