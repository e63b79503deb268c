"""The trainer of all learners with a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.models.build import build
from maxmargin.models.spec import ModelSpec
from maxmargin.training import inputs, learning
from maxmargin.training.inputs import check_number_of_labels
from maxmargin.training.options import Batch, Options
from maxmargin.training.outputs import outputs
from maxmargin.training.passes import FitPlan, Outcome, RunPasses, diverged
from maxmargin.training.protocol import Fitted, Learned
from maxmargin.training.sample_weights import counted
from maxmargin.training.state import State, grown
from maxmargin.training.types import Features, Matrix, Rows, Rule


class FitRows(NamedTuple):
    """The rows of a fit, without those of weight 0; weights include class weights."""

    X: Matrix
    y: np.ndarray
    classes: np.ndarray
    features: Features
    radius: float
    weight: np.ndarray | None
    totals: np.ndarray | None


class OnlineTrainer:
    """Presents rows to a rule, in passes or one by one.

    ``rule`` and ``spec`` make the rule for a p-norm and the specification of models; ``run`` makes
    the passes of a fit.
    """

    can_grow = True

    def __init__(
        self,
        options: Options,
        rule: Callable[[float], Rule],
        spec: Callable[[], ModelSpec],
        run: RunPasses,
    ) -> None:
        self.options, self.rule, self._spec, self._run = options, rule, spec, run
        self._checked: ModelSpec | None = None

    @property
    def spec(self) -> ModelSpec:
        return self._spec()

    def learn(
        self,
        state: State | None,
        batch: Batch,
        *,
        alone: bool = False,
    ) -> Learned:
        return learning.learn(self, state, batch, alone)

    def outputs(self, state: State, X: ArrayLike) -> np.ndarray:
        return outputs(self.options, state, X)

    def fit(
        self,
        state: State | None,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Fitted:
        given = self._fit_rows(state, X, y, sample_weight)
        start = self._initial(given) if state is None else self._resumed(state, given)
        state, rows, radius = start
        model, options = state.model, self.options
        model.begin_fit(rows)
        # The bound to report when there were too few updates for a better one.
        ceiling = model.ceiling(rows, radius) if options.max_iter > 1 else np.inf
        by_steps = given.weight if options.soft_margin == 0.0 else None
        codes = inputs.class_codes(given.y, given.classes)
        targets = inputs.as_targets(codes, given.classes.size, state.unseen, by_steps)
        plan = FitPlan(options, given.X.size, ceiling, inputs.shown(state))
        outcome = self._run(model, rows, targets, plan)
        if given.weight is not by_steps:
            outcome = outcome._replace(model=outcome.model.apart_from_rows())
        return self._concluded(state, outcome, plan, given.totals)

    def _fit_rows(
        self, before: State | None, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> FitRows:
        rows, labels, features, radius = inputs.check_fit(self.options, X, y, multilabel=True)
        if labels.ndim == 2 or before is not None:
            check_number_of_labels(self, labels, before)
        weight, totals, by_class = None, None, self.options.class_weight
        if sample_weight is not None or by_class is not None:
            rows, labels, weight, totals = counted(
                rows, labels, sample_weight, by_class, self.options.kernel
            )
            radius = inputs.check_values(rows)
        classes = inputs.classes_of(labels)
        return FitRows(rows, labels, classes, features, radius, weight, totals)

    def _initial(self, given: FitRows) -> tuple[State, Rows, float]:
        """A state at w = 0, the rows in the form of its model, and their largest norm."""
        multilabel = given.y.ndim == 2
        model, rows, radius = build(
            self.spec,
            inputs.problems_for(given.classes, multilabel=multilabel),
            given.X,
            radius=given.radius,
            sample_weight=given.weight,
            random_state=self.options.random_state,
        )
        state = State(model, given.classes, given.features, np.empty(0), multilabel=multilabel)
        return state, rows, radius

    def _resumed(self, before: State, given: FitRows) -> tuple[State, Rows, float]:
        """`_initial` for a warm start from a state, with rows of the same shape."""
        self.check_structure(before)
        private, X = before.model.private_coordinates(), given.X
        if given.weight is not None and private:
            raise ValueError("warm_start with a soft margin cannot go on with weights of rows.")
        # With a kernel, the soft margin is part of the kernel.
        is_soft = self.options.soft_margin > 0.0 and self.options.kernel == "linear"
        old = before.classes.tolist(), before.features.count, private
        now = given.classes.tolist(), X.shape[1], X.shape[0] if is_soft else 0
        if old != now:
            raise ValueError(
                "warm_start needs the classes, the number of features and, with a soft margin, "
                f"the number of rows of the last fit, without weights: {old}, got {now}."
            )
        # Drop spare columns.
        model = grown(before, before.features.count, given.classes).model.continued()
        features = given.features._replace(columns=before.features.columns)
        state = before._replace(model=model, features=features)
        return state, model.fit_rows(X, given.weight), given.radius

    def _concluded(
        self, state: State, outcome: Outcome, plan: FitPlan, totals: np.ndarray | None
    ) -> Fitted:
        model = outcome.model
        if not model.is_finite():
            raise ValueError(diverged(self.options.name))
        state = state._replace(
            model=model,
            margins=outcome.margins,
            measured=model.trials(),
            ceiling=plan.ceiling,
            n_iter=outcome.n_iter,
            converged=outcome.converged,
            more=outcome.more,
            totals=totals,
        )
        return Fitted(state, outcome.warning)

    def check_structure(self, state: State) -> None:
        """Raise if the model was built with other structural parameters."""
        spec = state.model.spec
        if self._checked is spec:
            return
        if found := spec.difference(self.spec):
            name, before, now = found
            raise ValueError(
                f"The '{name}' parameter of {self.options.name} cannot change on a fitted model: "
                f"it was {before!r}, got {now!r}. Fit anew without warm_start."
            )
        self._checked = spec

    def check_can_stream(self) -> None:
        learning.check_can_stream(self.options)
