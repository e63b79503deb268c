"""Iterative parameter mixing: each shard makes a pass from the common model, and they are averaged.

R. McDonald, K. Hall and G. Mann, "Distributed training strategies for the structured perceptron",
2010.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from maxmargin.distributed.distributed_newton import Report, RoundProgress
from maxmargin.distributed.survey import Job
from maxmargin.models.model_mixing import mixture
from maxmargin.models.spec import LinearSpec
from maxmargin.training import inputs
from maxmargin.training.inputs import shown
from maxmargin.training.online import OnlineTrainer
from maxmargin.training.passes import certified
from maxmargin.training.protocol import Batch, is_learner, state_of, trainer_of, with_state
from maxmargin.training.state import Features, State, online_model


class Part(NamedTuple):
    """A learner, and the number of rows of its pass."""

    learner: BaseEstimator
    rows: int


class Pass(NamedTuple):
    """The request for a pass over the rows of a shard."""

    learner: BaseEstimator  # with the common model; unfitted in the first round
    classes: np.ndarray
    weighted: bool  # are there weights other than 1?

    def answer(self, shard: Any) -> Part | None:
        learner, trainer = self.learner, trainer_of(self.learner)
        state, seen = state_of(learner), 0
        classes = self.classes if state is None else None
        for rows in shard.rows():
            y = rows.codes if rows.codes.ndim == 2 else self.classes[rows.codes]
            weight = rows.sample_weight if self.weighted else None
            state = trainer.learn(state, Batch(rows.X, y, classes, weight)).state
            classes, seen = None, seen + rows.sample_weight.size
        return Part(with_state(learner, state), seen) if state is not None and seen else None

    def merged(self, answers: Sequence[Part | None]) -> Part | None:
        parts = [part for part in answers if part is not None]
        if len(parts) < 2:
            return parts[0] if parts else None
        before, rows = state_of(self.learner), np.array([part.rows for part in parts], float)
        states: Any = [state_of(part.learner) for part in parts]
        model = mixture(
            states[0].model,
            [state.model for state in states],
            rows / rows.sum(),
            None if before is None else before.model,
        )
        state = states[0]._replace(model=model)
        return Part(with_state(self.learner, state), int(rows.sum()))


class Margins(NamedTuple):
    """The question about the least margin of each problem."""

    learner: BaseEstimator

    def answer(self, shard: Any) -> np.ndarray:
        state: Any = state_of(self.learner)
        model = online_model(state)
        lowest = np.full(model.n_margins(), np.inf)
        for part in shard.rows():
            targets = inputs.as_targets(part.codes, state.classes.size, state.unseen)
            lowest = np.minimum(lowest, model.margins(model.rows(part.X), targets))
        return lowest

    def merged(self, answers: Sequence[np.ndarray]) -> np.ndarray:
        return np.min(answers, axis=0)


def check_can_mix(learner: BaseEstimator, rounds: int) -> None:
    """Raise unless models of the learner can be averaged."""
    name = type(learner).__name__
    trainer = trainer_of(learner) if is_learner(learner) else None
    if not isinstance(trainer, OnlineTrainer) or not trainer.options.incremental:
        raise TypeError(
            f"{name} cannot learn from rows in many places: MaxMargin does, and the online "
            "learners of maxmargin with linear weights."
        )
    learner.check_parameters()
    spec = trainer.spec
    if not isinstance(spec, LinearSpec):
        raise ValueError(
            f"{name} with a kernel, on a budget, or of several learners cannot be mixed: its "
            "weights are not those of features."
        )
    if spec.has_pairs():
        raise ValueError(
            f"{name} with a free intercept, learned from pairs, cannot be mixed: each model rests "
            "on a pair of rows of margin 1, and a mean has none. Use MaxMargin, or another learner."
        )
    if rounds > 1 and learner.soft_margin > 0.0:
        raise ValueError(
            "soft_margin > 0 gives each row a coordinate of its own, which would have to be kept "
            "between rounds: use rounds=1, or MaxMargin."
        )
    if learner.warm_start:
        raise ValueError("warm_start is not for learning on many machines: it begins anew.")
    learner.check_can_stream()


def mixed(job: Job, rounds: int, report: Report) -> State:
    """The state after so many rounds."""
    learner, overview = job.learner, job.overview
    # The weights of rows include class weights.
    common, tol = clone(learner).set_params(class_weight=None), learner.tol
    measures = learner.soft_margin == 0.0
    state: Any = None
    for done in range(1, rounds + 1):
        question = Pass(common, overview.columns.classes, overview.found.weighted)
        after: Any = state_of(job.ask(question).learner)
        settled = state is not None and after.model.updates() == state.model.updates()
        converged = bool(settled and learner.settles)
        state = after._replace(n_iter=done, converged=converged)
        common = with_state(common, state)
        ratio = 0.0
        if measures and (tol is not None or converged or done == rounds):
            lowest = job.ask(Margins(common))
            state = state._replace(margins=lowest, measured=state.model.trials())
            ratio = certified(online_model(state), lowest, np.inf, shown(state)).ratio
            if tol is not None and ratio > 0.0 and ratio >= 1.0 - tol:
                state, converged = state._replace(converged=True), True
        report(RoundProgress(done, ratio, overview.found.rows))
        if converged:
            break
    features: Features = overview.columns.features
    totals = None
    if learner.class_weight is not None:
        totals = np.append(overview.found.totals, overview.found.totals.sum())
    found: State = state._replace(features=features, totals=totals)
    return found
