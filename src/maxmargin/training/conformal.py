"""A trainer whose prediction sets follow the scores that rows have before they are learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.training.inputs import shown
from maxmargin.training.prediction_sets import NO_SETS, SetTracker, follow_sets, tracker_for
from maxmargin.training.protocol import Batch, Fitted, Learned, Trainer
from maxmargin.training.state import State

# Keys of `State.more`: the tracker, and the sorted scores of held-out rows.
SETS, HELD_OUT = "sets", "held_out"


def tracker_in(state: State | None) -> SetTracker | None:
    """The tracker of prediction sets of a state, if it has one."""
    return None if state is None else state.more.get(SETS)


class ConformalTrainer:
    """Lets another trainer learn, and prediction sets follow.

    Parameters
    ----------
    inner : the trainer of the learner
    coverage : the target
    seen : array of shape (places, 2), which receives for each place of the order whether the label
        was outside of its set, and the number of classes inside; empty if that is not needed
    """

    def __init__(self, inner: Trainer, coverage: float, seen: np.ndarray = NO_SETS) -> None:
        self.inner, self.coverage, self.seen = inner, coverage, seen
        self.options, self.can_grow = inner.options, inner.can_grow

    @property
    def spec(self) -> Any:
        return self.inner.spec

    def fit(self, *given: Any, **more: Any) -> Fitted:
        return self.inner.fit(*given, **more)

    def learn(self, state: State | None, batch: Batch, **how: Any) -> Learned:
        """Learn from each row once; the sets follow the scores from before."""
        if np.ndim(batch.y) == 2 or (state is not None and state.multilabel):
            raise ValueError(
                "ConformalClassifier needs rows with one label each: the sets of several labels a "
                "row are not nested."
            )
        before = tracker_in(state)
        learned = self.inner.learn(state, batch._replace(traced=True), **how)
        after, tracker = learned.state, tracker_for(self.coverage, before)
        assert learned.trace is not None
        follow_sets(
            tracker,
            learned.trace.scores(),
            after.model.outputs_are_odds,
            learned.codes,
            learned.order,
            shown(after),
            after.classes.size,
            self.seen,
        )
        more = {name: value for name, value in after.more.items() if name != HELD_OUT}
        return learned._replace(state=after._replace(more={**more, SETS: tracker}))

    def outputs(self, state: State, X: ArrayLike) -> np.ndarray:
        return self.inner.outputs(state, X)

    def check_can_stream(self) -> None:
        self.inner.check_can_stream()
