"""The passes of a fit: until nothing is left to learn, or for as long as they may take."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from maxmargin._terminal import bar
from maxmargin.budgetmodel import BudgetModel
from maxmargin.core.loop import NO_NOTES
from maxmargin.schedule import Schedule

# One call of the compiled loop takes some dozen milliseconds: short enough to show progress and to
# be interrupted, long enough for the call itself not to count.
VALUES_PER_CALL = 2**24


def run_passes(clf: Any, rows: Any, targets: Any, size: int) -> None:
    """Present rows until nothing is left to learn, or as many as `max_iter` passes have.

    ``size`` is the number of values in all rows.
    """
    count, presented, next_check = rows.size(), 0, 1
    random = np.random.default_rng(check_random_state(clf.random_state).randint(2**31 - 1))
    schedule = Schedule(count, clf.shuffle, random)
    rows_per_call = max(1, VALUES_PER_CALL * count // max(size, 1))
    model = clf._model
    clf.n_iter_, clf.converged_ = 0, False
    with (
        _measured_at_the_end(clf, rows, targets),
        bar(type(clf).__name__, clf.max_iter, "passes", enabled=bool(clf.verbose)) as advance,
    ):

        def learn(order: np.ndarray) -> int:
            """Present the rows ``order``; the number of updates."""
            nonlocal presented
            before = model.updates()
            for start in range(0, order.size, rows_per_call):
                part = order[start : start + rows_per_call]
                notes = NO_NOTES._replace(touched=schedule.touched, stamp=schedule.stamp)
                model.present(rows, targets, part, clf._rule(), notes)
                presented += part.size
                advance(part.size / count, note=f"{model.updates():,} updates")
            clf.n_iter_ = -(-presented // count)
            return model.updates() - before

        while True:
            mistakes = clf.n_mistakes_
            updates = learn(schedule.everything())
            if not model.is_finite():
                raise ValueError(
                    f"{clf!r} diverged: its weights are not finite any more (a rate, or a p, may "
                    "be too large for the data)."
                )
            clf.converged_ = clf._settles and updates == 0
            if clf.tol is not None and clf.n_iter_ >= next_check:
                clf._measure(rows, targets)
                ratio = clf.certificate_.ratio
                clf.converged_ |= ratio > 0.0 and ratio >= 1.0 - clf.tol
                # Looking costs a pass: do it each time the passes have grown by an eighth.
                next_check = clf.n_iter_ + max(1, clf.n_iter_ // 8)
            if clf.converged_ or clf.n_iter_ >= clf.max_iter:
                break
            # Rows that cannot be separated must not get more weight than their number.
            separated = clf.soft_margin > 0.0 or clf.n_mistakes_ == mistakes
            if separated and clf._settles and clf.shuffle and not model.average:
                # Leave room for a full pass at the end.
                for order in schedule.recent(most=(clf.max_iter - clf.n_iter_ - 1) * count):
                    learn(order)
    clf.converged_ &= clf.certificate_.bound > 0.0
    _warn_if_unfinished(clf)


@contextlib.contextmanager
def _measured_at_the_end(clf: Any, rows: Any, targets: Any) -> Iterator[None]:
    """Know the margin reached, also if the passes are interrupted."""
    try:
        yield
    except Exception:
        raise  # the state there was before comes back
    except BaseException:
        _measure_and_end(clf, rows, targets)
        raise
    _measure_and_end(clf, rows, targets)


def _measure_and_end(clf: Any, rows: Any, targets: Any) -> None:
    clf._measure(rows, targets)
    clf._model.end()
    clf._half_done = clf._model.tally.trials[0] == 0


def _warn_if_unfinished(clf: Any) -> None:
    name, certificate = type(clf).__name__, clf.certificate_
    warning = ""
    if clf.tol is not None and certificate.ratio < 1.0 - clf.tol:
        warning = (
            f"{name} certifies {certificate.ratio:.4f} of the best margin after {clf.n_iter_} "
            f"passes, less than the {1.0 - clf.tol:.4f} that tol={clf.tol} asks for. If no update "
            "was left to make, ask the rule for more: a smaller delta, epsilon or alpha."
        )
    elif certificate.bound == 0.0:
        warning = f"{name} met the same row with two labels: the data are not separable."
    elif isinstance(clf._model, BudgetModel) and clf._model.is_full():
        pass  # with rows forgotten there may be updates for ever
    elif clf._settles and not clf.converged_ and clf.max_iter > 1:
        warning = (
            f"{name} still made updates in pass {clf.n_iter_}. Increase max_iter, or the data are "
            "not separable."
        )
    if warning:
        warnings.warn(warning, ConvergenceWarning, stacklevel=6)
