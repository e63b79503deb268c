"""When a fit gives up: rows that cannot be separated bring updates for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.certificates import Certificate
from maxmargin.certificates.directed_rounding import text_down, text_up
from maxmargin.core.targets import weights_in
from maxmargin.core.trace import NO_TRACE
from maxmargin.models.base import Model
from maxmargin.training.types import Advance, Rows, Rule, Targets

if TYPE_CHECKING:
    from maxmargin.training.passes import FitPlan, Passes

# A fit gives up only if each half of its passes has presented at least so many rows: on small data
# many passes take no time, ...
LEAST_ROWS = 100_000
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
        self.least_passes = max(n_iter_no_change, LEAST_ROWS / count)
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

    def compares(self, model: Model) -> bool:
        """Is it time to look for the best weights? Means, and those of kernels, stay the last."""
        return self.doubtful and not (model.spec.averages() or model.has_supports)

    def compared(self, passes: Passes, order: np.ndarray, advance: Advance | None) -> int:
        """Let ``passes`` present these rows, and keep a twin of the model with the fewest errors.

        The number of updates.
        """
        model, updates = passes.model, 0
        for part in np.array_split(order, LOOKS):
            updates += passes.learn(part, advance)
            errors = _errors(model, passes.rows, passes.targets, passes.rule, passes.plan.shown)
            if errors < self.errors:
                self.best, self.errors = model.twin(), errors
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


def _errors(model: Model, rows: Rows, targets: Targets, rule: Rule, shown: slice) -> float:
    """The share of rows that the model is wrong about, as it is now; of very many, of some.

    Rows that count more, count more here.
    """
    count = targets.labels.shape[0]
    some = np.arange(0, count, -(-count // LOOKED_AT), dtype=np.int32)
    history = np.empty((some.size, model.problems() + 1))
    model.present(rows, targets, -1 - some, rule, NO_TRACE._replace(history=history))
    outputs = history[:, :-1][:, shown]
    labels = targets.labels[some]
    if labels.ndim == 2:
        wrong = ((outputs >= 0.0) != labels).any(axis=1)
    else:
        codes = outputs.argmax(axis=1) if outputs.shape[1] > 1 else outputs[:, 0] >= 0.0
        wrong = codes != labels
    weights = weights_in(targets)
    return float(np.average(wrong, weights=None if weights is None else weights[some]))


def complaint(
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
