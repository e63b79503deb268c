"""Callbacks of a fit, which need scikit-learn 1.9."""

from __future__ import annotations

from functools import partial
from typing import Any

import sklearn
from sklearn.base import BaseEstimator

from maxmargin._extras import Self
from maxmargin.models.base import Model
from maxmargin.training.passes import Outcome, Plan, RunPasses
from maxmargin.training.state import State
from maxmargin.training.types import Rows, Targets, Tree

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:
    CallbackSupportMixin, with_callbacks = object, None

# Attributes that scikit-learn sets on estimators with callbacks.
MADE_BY_CALLBACKS = {
    "_skl_callbacks",
    "_skl_callbacks_to_teardown",
    "_callback_fit_ctx",
    "_parent_callback_ctx",
}


class Watched(CallbackSupportMixin):
    """A learner with the method `set_callbacks`."""

    if with_callbacks is None:

        def set_callbacks(self, *callbacks: Any) -> Self:
            """Attach callbacks to the learner; needs scikit-learn 1.9.

            Parameters
            ----------
            *callbacks : callbacks

            Returns
            -------
            self
            """
            if callbacks:
                raise ImportError(
                    f"callbacks need scikit-learn 1.9 or later, and {sklearn.__version__} is "
                    "installed: pip install -U scikit-learn"
                )
            return self


class Report:
    """Reports each full pass to callbacks.

    ``fitted_attributes`` makes the attributes of a fitted learner after so many passes; ``data``
    has the arguments of the fit.
    """

    def __init__(
        self, learner: BaseEstimator, context: Any, fitted_attributes: Any, data: Tree
    ) -> None:
        self.learner, self.context, self.data = learner, context, data
        self.fitted_attributes = fitted_attributes
        self.task: Any = None

    def begin(self) -> None:
        """Report the start of a pass."""
        self.task = self.context.subcontext(task_name="pass")
        self.task.call_on_fit_task_begin(estimator=self.learner, **self.data)

    def end(self, n_iter: int) -> bool:
        """Report the end of a pass; True if a callback asks to stop."""
        attributes = partial(self.fitted_attributes, n_iter)
        return self.task.call_on_fit_task_end(
            estimator=self.learner, reconstruction_attributes=attributes, **self.data
        )


def reported(
    learner: BaseEstimator, run: RunPasses, state: State, given: tuple[Any, Any, Any]
) -> RunPasses:
    """``run``, the passes of a fit to rows, labels and weights, with reports to callbacks.

    Callbacks that ask for it get a fitted copy of the learner, whose certificate is about all rows.
    """
    X, y, weight = given
    data: Tree = {"X": X, "y": y}
    if weight is not None:
        data["metadata"] = {"sample_weight": weight}

    @with_callbacks
    def run_reported(
        learner: BaseEstimator, model: Model, rows: Rows, targets: Targets, plan: Plan
    ) -> Outcome:
        def fitted_attributes(n_iter: int) -> Tree:
            now, margins = model.twin(), model.margins(rows, targets)
            now.end_fit()
            fitted = state._replace(
                model=now,
                margins=margins,
                n_iter=n_iter,
                measured=now.trials(),
                ceiling=plan.ceiling,
            )
            return {"_state": fitted}

        context = learner._init_callback_context(max_subtasks=plan.options.max_iter)
        context.call_on_fit_task_begin(estimator=learner, **data)
        report = Report(learner, context, fitted_attributes, data)
        outcome = run(model, rows, targets, plan._replace(report=report))
        context.call_on_fit_task_end(estimator=learner, **data)
        return outcome

    return partial(run_reported, learner)
