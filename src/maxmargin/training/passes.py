"""The passes of a fit, and in which order they present the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from maxmargin._terminal import bar
from maxmargin.certificates import Certificate
from maxmargin.certificates.convex_combinations import presuming_mercer
from maxmargin.core.trace import NO_TRACE
from maxmargin.models.base import Model
from maxmargin.models.parallel_ovr import Parts
from maxmargin.training import stopping
from maxmargin.training.following import Following
from maxmargin.training.options import Options
from maxmargin.training.types import Advance, Rows, Rule, Targets

# One call of the compiled loop takes some dozen milliseconds: short enough to show progress and to
# be interrupted, long enough for the call itself not to count.
VALUES_PER_CALL = 2**24
# A row matters if it brought an update within so many full passes.
MEMORY = 50
# Rows presented between two full passes, as a multiple of all rows: less at first, because easy
# problems are solved by then, and it takes a full pass to find out.
FIRST_PASSES, FIRST_SHARE, SHARE = 3, 4, 20
# Fewer rows than this are presented several times in one call of the compiled loop.
LEAST_ROWS = 2048


class Plan(NamedTuple):
    """What is asked of the passes of a fit.

    Attributes
    ----------
    options : the hyper-parameters
    values : numbers in all rows
    ceiling : no margin is larger, whatever else is proved
    shown : the problems that users see
    following : the model with what follows its scores, if that is asked for
    report : is called at each full pass, if given; see `callbacks`
    wanted_margin : the passes end when a certificate proves that no margin is as large
    promised_margin : where the best margin is as large, a theorem promises an end, so that the
        passes go on until a certificate proves that none is; infinite where nothing is promised
    """

    options: Options
    values: int
    ceiling: float
    shown: slice
    following: Following | None = None
    report: stopping.Report | None = None
    wanted_margin: float = 0.0
    promised_margin: float = np.inf

    @property
    def separable(self) -> bool:
        """Can any rows be separated?"""
        return self.options.soft_margin > 0.0

    def random(self) -> np.random.Generator:
        random = check_random_state(self.options.random_state)
        return np.random.default_rng(random.randint(2**31 - 1))


class Outcome(NamedTuple):
    """What came of the passes, and the model that has learned: the given one, or a twin of it."""

    model: Model
    margins: np.ndarray
    n_iter: int
    converged: bool
    interrupted: KeyboardInterrupt | None = None
    warning: str = ""
    more: dict[str, Any] = {}  # what only one learner has to say


RunPasses = Callable[[Model, Rows, Targets, Plan], Outcome]


def run_passes(model: Model, rows: Rows, targets: Targets, rule: Rule, plan: Plan) -> Outcome:
    """Present rows until nothing is left to learn, for `max_iter` passes, or until Ctrl-C."""
    passes = Passes(model, rows, targets, rule, plan)
    options, interrupted = plan.options, None
    shown = bar(options.name, options.max_iter, "passes") if options.verbose else nullcontext()
    jobs = 1 if plan.following else min(effective_n_jobs(options.n_jobs), model.parts())
    learner = Parts(model, rows, targets, jobs) if jobs > 1 else nullcontext(passes.learner)
    with learner as passes.learner:
        try:
            with shown as advance:
                passes.run(advance)
        except KeyboardInterrupt as signal:
            interrupted = signal
            passes.learner.settle()
    gave_up = passes.progress if passes.progress and passes.progress.ended else None
    model = (gave_up and gave_up.best) or model
    margins = model.margins(rows, targets)
    model.end_fit()
    certificate = certified(model, margins, plan.ceiling, plan.shown)
    # Means of weights may be on the wrong side of a row where nothing is left to learn.
    stuck = passes.converged and certificate.margin < 0.0 and not model.spec.average
    converged = passes.converged and certificate.bound > 0.0 and not stuck
    warning, unproved = "", options.tol is not None and not certificate.ratio >= 1.0 - options.tol
    if gave_up:
        warning = gave_up.complaint(
            options.name, certificate.bound, passes.n_iter, options.unset, model.spec.average
        )
    elif (unproved or not converged) and not passes.stopped:
        p = float(np.min(model.p))  # a vote has several
        warning = stopping.complaint(plan, certificate, passes.n_iter, stuck, model.is_full(), p)
    return Outcome(model, margins, passes.n_iter, converged, interrupted, warning)


def certified(
    model: Model, margins: np.ndarray, ceiling: float, shown: slice, features: int = 0
) -> Certificate:
    """The certificate of a model with these margins, with evidence if ``features`` is given."""
    bounds = model.bounds()
    if model.has_supports and not model.kernel.is_mercer():  # type: ignore[attr-defined]
        bounds = presuming_mercer(bounds, margins, ceiling)
    else:
        bounds = np.where(bounds < np.inf, bounds, ceiling)
    sums = model.evidence(features)[shown] if features else []
    return Certificate.weakest(margins[shown], bounds[shown], sums)


def diverged(name: str) -> str:
    return (
        f"{name} diverged: its weights are not finite any more (a rate, or a p, may be too large "
        "for the data, or intercept_scaling or soft_margin too far from the size of the rows)."
    )


class Passes:
    """Full passes, and between them passes over the rows that still matter."""

    def __init__(self, model: Model, rows: Rows, targets: Targets, rule: Rule, plan: Plan) -> None:
        self.model, self.rows, self.targets, self.rule, self.plan = model, rows, targets, rule, plan
        self.learner: Any = plan.following or model
        self.count = targets.labels.shape[0]
        self.rows_per_call = max(1, VALUES_PER_CALL * self.count // max(plan.values, 1))
        self.schedule = Schedule(self.count, plan.options.shuffle, plan.random())
        self.presented, self.n_iter, self.converged, self.stopped = 0, 0, False, False
        self.progress: stopping.Progress | None = None
        patience = plan.options.n_iter_no_change
        may_give_up = plan.options.settles and not plan.separable and not model.is_full()
        if may_give_up and patience is not None:
            self.progress = stopping.Progress(self.count, patience, self._is_hopeless)
        self.next_check = 1  # of the certificate, after so many passes

    def run(self, advance: Advance | None) -> None:
        """Full passes until one of them is the last, and between them what still matters."""
        model, report = self.model, self.plan.report
        while True:
            if report is not None:
                report.begin()
            mistakes = model.mistakes()
            updates = self.full_pass(advance)
            if not model.is_finite():
                raise ValueError(diverged(self.plan.options.name))
            self.converged = self._has_converged(updates)
            self.stopped = report is not None and report.end(self.n_iter)
            if self.converged or self.stopped or self.n_iter >= self.plan.options.max_iter:
                return
            made = model.mistakes() - mistakes
            if self.progress is not None and self.progress.ends_with(made):
                return
            if self._has_no_margin(self.plan.wanted_margin):
                if made == 0 or self.progress is None:
                    return
                self.progress.hurry()  # on to weights with few errors
            self._present_recent(made, advance)

    def _has_converged(self, updates: int) -> bool:
        """Was the last full pass, with so many updates, the last that is needed?"""
        options = self.plan.options
        converged = options.settles and updates == 0
        if options.tol is not None and self.n_iter >= self.next_check:
            margins = self.model.margins(self.rows, self.targets)
            ratio = certified(self.model, margins, self.plan.ceiling, self.plan.shown).ratio
            converged |= ratio > 0.0 and ratio >= 1.0 - options.tol
            # Looking costs a pass: do it each time the passes have grown by an eighth.
            self.next_check = self.n_iter + max(1, self.n_iter // 8)
        return bool(converged)

    def _is_hopeless(self) -> bool:
        """Is every margin too small for a theorem to promise an end?"""
        promised = self.plan.promised_margin
        return promised == np.inf or self._has_no_margin(promised)

    def _has_no_margin(self, wanted: float) -> bool:
        """Does a certificate prove that there is no margin as large as the one that is wanted?"""
        plan, model = self.plan, self.model
        if wanted == 0.0 or model.bounds()[plan.shown].min() >= wanted:
            return False
        margins = model.margins(self.rows, self.targets)
        return certified(model, margins, plan.ceiling, plan.shown).bound < wanted

    def _present_recent(self, mistakes: int, advance: Advance | None) -> None:
        """Present the rows that still matter, after a full pass with so many mistakes."""
        options = self.plan.options
        # Rows that cannot be separated must not get more weight than their number.
        separated = self.plan.separable or mistakes == 0
        if separated and options.settles and options.shuffle and not self.model.spec.average:
            # One full pass must be left for the end.
            most = (options.max_iter - self.n_iter - 1) * self.count
            for order in self.schedule.recent(most):
                self.learn(order, advance)

    def full_pass(self, advance: Advance | None) -> int:
        """Present all rows; the number of updates. If it is doubtful, look at errors on the way."""
        order, progress = self.schedule.everything(), self.progress
        if progress is None or not progress.compares(self.model):
            return self.learn(order, advance)
        return progress.compared(self, order, advance)

    def learn(self, order: np.ndarray, advance: Advance | None) -> int:
        """Present the rows ``order``; the number of updates."""
        model, schedule, before = self.model, self.schedule, self.model.updates()
        for start in range(0, order.size, self.rows_per_call):
            part = order[start : start + self.rows_per_call]
            trace = NO_TRACE._replace(touched=schedule.touched, stamp=schedule.stamp)
            self.learner.present(self.rows, self.targets, part, self.rule, trace)
            self.presented += part.size
            if advance is not None:
                advance(part.size / self.count, note=f"{model.updates():,} updates")
        self.n_iter = -(-self.presented // self.count)
        return model.updates() - before


class Schedule:
    """Orders of presentation: full passes, and between them the rows that still matter.

    Near the end most rows bring no update any more, and looking at them is a waste. So after a full
    pass the rows that brought an update lately are presented again, narrowing onto those that just
    did, until they are quiet or have been given their share of the work. They are shuffled once and
    then keep their order: shuffling them each time takes as long as looking at them, and takes more
    looks besides (Adult, 32 561 rows, PUMMA: twice as many). Any order keeps the guarantees of the
    learners; only a quiet full pass counts as convergence.

    Attributes
    ----------
    touched : filled by the loop, the stamp of the last order in which a row brought an update
    stamp : the number of the order that is presented now
    """

    def __init__(self, size: int, shuffle: bool, random: np.random.Generator) -> None:
        kind = np.int32 if size < 2**31 else np.int64
        self._everything = np.arange(size, dtype=kind)
        self._last_pass = np.full(size, -MEMORY, dtype=np.int32)
        self._shuffle, self._random, self._passes = shuffle, random, 0
        self.touched = np.zeros(size, dtype=np.int32)
        self.stamp = 0

    def everything(self) -> np.ndarray:
        """All rows, for a full pass."""
        if self._shuffle:
            self._random.shuffle(self._everything)
        self._passes += 1
        self.stamp += 1
        return self._everything

    def recent(self, most: int) -> Iterator[np.ndarray]:
        """Orders of rows that brought an update lately; at most ``most`` rows in all."""
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
