"""Learning from shards of rows on many machines.

It is independent of an engine: an `Executor` sends the same question to all shards and merges their
answers. `maxmargin.dask` has one for Dask, and ``docs/clusters.md`` shows those for Ray and Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from maxmargin.algorithms.maxmargin import MaxMargin, as_state
from maxmargin.distributed.distributed_newton import Report, path_of_sample, solved
from maxmargin.distributed.executor import Executor, Plain, answer, derived, merged, tree
from maxmargin.distributed.shards import File, Held, Schemas, encoded, files
from maxmargin.distributed.survey import Job, Overview, SurveyQuestion, overview_of
from maxmargin.solvers.newton import silent
from maxmargin.training.inputs import problems_for

__all__ = [
    "Executor",
    "File",
    "Held",
    "Plain",
    "answer",
    "derived",
    "files",
    "fit",
    "merged",
    "tree",
]


def fit(
    estimator: MaxMargin,
    shards: Sequence[Any],
    executor: Executor | None = None,
    *,
    report: Report = silent,
) -> MaxMargin:
    """Fit an estimator to the rows of all shards.

    Parameters
    ----------
    estimator : MaxMargin
        Its ``max_iter`` limits the number of rounds. With ``soft_margin="auto"``, lambda is chosen
        on a random sample of at most 4096 rows. An error or Ctrl-C leaves it unchanged.
    shards : list of Held, or of File
        See `files`. A shard may be empty or have a single class.
    executor : Executor, default=None
        By default `Plain()`: this process, one shard after the other.
    report : callable, default=None
        Called with the `RoundProgress` after each round.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import MaxMargin
    >>> from maxmargin.distributed import Held, fit
    >>> X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0, 0, 1, 1])
    >>> shards = [Held(0, "the first", X[:2], y[:2]), Held(1, "the second", X[2:], y[2:])]
    >>> fit(MaxMargin(), shards).predict([[1.9], [2.1]]).tolist()
    [0, 1]
    """
    if not shards:
        raise ValueError("There are no shards to learn from.")
    check_can_learn(estimator)
    executor, learner = executor or Plain(), clone(estimator)
    overview, ready, schema = _surveyed(learner, shards, executor)
    columns = overview.columns
    problems = problems_for(columns.classes, multilabel=columns.multilabel)
    more: dict[str, Any] = {}
    if learner.soft_margin == "auto":
        path = path_of_sample(learner, overview, problems)
        learner.set_params(soft_margin=path.soft_margin)
        more = {"path_": path, "soft_margin_": path.soft_margin}
    found = solved(Job(learner, overview, executor, ready), problems, report)
    state = as_state(found, columns.classes, columns.features, columns.multilabel)
    estimator.conclude(state._replace(schema=schema, more=more), overview.found.radius)
    return estimator


def check_can_learn(estimator: Any) -> None:
    """Raise if an estimator cannot learn from shards, before any is read."""
    if not isinstance(estimator, MaxMargin):
        raise TypeError(
            f"{type(estimator).__name__} cannot learn from rows in many places: use MaxMargin, or "
            "fit_stream of an online learner over all files on one machine."
        )
    estimator.check_can_fit()
    if estimator.kernel != "linear" or estimator.device != "cpu":
        raise ValueError(
            "MaxMargin learns from shards with kernel='linear' and device='cpu' only: fit all "
            "rows on one machine."
        )
    if estimator.calibration is not None:
        raise ValueError(
            "MaxMargin learns from shards without probabilities, got calibration="
            f"{estimator.calibration!r}: use calibration=None, or fit all rows on one machine."
        )
    if estimator.soft_margin == 0.0:
        raise ValueError(
            "MaxMargin learns soft margins from shards, got soft_margin=0: use a small "
            "soft_margin, or fit all rows on one machine."
        )
    if estimator.multiclass != "ovr":
        raise ValueError(
            f"MaxMargin cannot learn from shards with multiclass={estimator.multiclass!r}: use "
            "multiclass='ovr', or fit all rows on one machine."
        )
    if estimator.loss != "squared_hinge":
        raise ValueError(
            f"MaxMargin cannot learn from shards with loss={estimator.loss!r}: use "
            "loss='squared_hinge', or fit all rows on one machine."
        )


def _surveyed(
    learner: MaxMargin, shards: Sequence[Any], executor: Executor
) -> tuple[Overview, Any, dict[str, Any] | None]:
    """The survey of all rows, shards with class codes, and the schema of files."""
    placed, schema = executor.place(shards), None
    if isinstance(shards[0], File):
        schema = executor.ask(Schemas(), placed[:1])
        placed = executor.derive(File.read_by, placed, schema)
    overview = overview_of(learner, executor.ask(SurveyQuestion(learner, len(shards)), placed))
    return overview, executor.derive(encoded, placed, overview.columns), schema
