"""Learning on a Dask cluster, with the same certificate as on one machine; see docs/clusters.md."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_consistent_length

from maxmargin._terminal import bar
from maxmargin.certificates.directed_rounding import text_down
from maxmargin.distributed import answer, check_can_learn, files, fit, merged, tree
from maxmargin.distributed.distributed_newton import RoundProgress
from maxmargin.distributed.executor import Question, derived
from maxmargin.distributed.shards import File, Held, ShardError
from maxmargin.training.protocol import state_of, with_state
from maxmargin.training.sample_weights import check_weights

try:
    import dask
    import dask.array as da
    import distributed
    from dask.base import is_dask_collection
    from dask.delayed import Delayed, delayed
except ImportError as error:  # pragma: no cover
    raise ImportError(
        f'maxmargin.dask needs Dask: pip install "maxmargin[dask]" ({error})'
    ) from None

# Models of many features are part of the graph, so that lost results can be recomputed.
LARGE_GRAPH = {"distributed.admin.large-graph-warning-threshold": "4 GiB"}


class ClusterError(RuntimeError):
    """There is no cluster, or it was lost."""


class DaskClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that learns from rows in a Dask cluster, with a certificate.

    The model depends only on the rows and their partitions, not on the number, the order or the
    failure of workers.

    Parameters
    ----------
    estimator : MaxMargin
        It is solved exactly, by at most ``max_iter`` rounds over all partitions. With
        ``soft_margin="auto"``, lambda is chosen on a random sample of at most 4096 rows.
    client : distributed.Client, default=None
        By default the current one; none is started.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator; see `to_local`.
    certificate_ : Certificate
        The margin on the rows of all partitions, and a proved bound on the best possible one.
    classes_, coef_, intercept_, n_features_in_, n_iter_, converged_
        Those of `estimator_`; `n_iter_` counts rounds.

    Examples
    --------
    >>> from dask.distributed import Client  # doctest: +SKIP
    >>> from maxmargin import MaxMargin  # doctest: +SKIP
    >>> from maxmargin.dask import DaskClassifier  # doctest: +SKIP
    >>> client = Client()  # doctest: +SKIP
    >>> clf = DaskClassifier(MaxMargin()).fit("rows/part-*.parquet", label="spam")  # doctest: +SKIP
    >>> print(clf.certificate_)  # doctest: +SKIP
    >>> clf.to_local().predict([[0.5, 1.0]])  # doctest: +SKIP
    """

    def __init__(self, estimator: Any, client: Any = None) -> None:
        self.estimator = estimator
        self.client = client

    # ------------------------------------------------------------------------------------- learning
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **options: Any) -> Any:
        """Learn from all partitions.

        An error or Ctrl-C leaves the classifier unchanged.

        Parameters
        ----------
        X : dask array, dask frame, list of delayed blocks, or path, pattern or list of paths
            Arrays have chunks of NumPy arrays or CSR matrices. Files are those of
            `maxmargin.streams.open`, each a partition; workers read them in each round, in constant
            memory.
        y : dask array, dask series, or list of delayed blocks
            The labels, in the same partitions; None for files.
        sample_weight : as y, default=None
        **options
            Options of `maxmargin.streams.open` for files, such as ``label="spam"``.
        """
        local = clone(self.estimator)
        check_can_learn(local)
        executor = DaskExecutor(self._client())
        shards = _shards(executor, X, y, sample_weight, options)
        title = f"MaxMargin on {len(shards)} partitions"
        with bar(title, None, "rounds", enabled=bool(local.verbose)) as advance:

            def report(progress: RoundProgress) -> None:
                advance(
                    1, note=f"round {progress.rounds}, certified {text_down(progress.ratio, 4)}"
                )

            fit(local, shards, executor, report=report)
        self.estimator_ = local
        return self

    def _client(self) -> Any:
        client = self.client
        if client is None:
            try:
                client = distributed.default_client()
            except ValueError:
                raise ClusterError(
                    "No Dask client is running, and none is started automatically: create one with "
                    "`from dask.distributed import Client; client = Client()`."
                ) from None
        if not hasattr(client, "asynchronous"):
            raise TypeError(f"client must be a distributed.Client, got {type(client).__name__}.")
        if client.asynchronous:
            raise TypeError(
                "An asynchronous client cannot be waited for: pass one that was made by Client(), "
                "without asynchronous=True, and call fit in a thread of its own."
            )
        if client.status == "closed":
            raise ClusterError("This Dask client is closed: make a new one.")
        return client

    def __sklearn_clone__(self) -> Any:
        """The client is shared, since it cannot be copied."""
        return type(self)(clone(self.estimator), self.client)

    def __getstate__(self) -> dict[str, Any]:
        """Without the client, which cannot be pickled."""
        return {**super().__getstate__(), "client": None}

    # ----------------------------------------------------------------------------------- predicting
    def predict(self, X: Any) -> Any:
        """The class of each row: a lazy array for an array, a series for a frame."""
        return _lazily(self._fitted(), "predict", X)

    def decision_function(self, X: Any) -> Any:
        """The scores of each row; a column for each class if there are more than two."""
        return _lazily(self._fitted(), "decision_function", X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, **options: Any) -> float:
        """The accuracy on rows given as for `fit`."""
        local = self._fitted()
        executor = DaskExecutor(self._client())
        shards = _shards(executor, X, y, sample_weight, options)
        state: Any = state_of(local)
        if isinstance(shards[0], File):
            shards = [shard._replace(schema=state.schema) for shard in shards]
        right, rows = executor.ask(Hits(local), executor.place(shards))
        if not rows:
            raise ValueError("There are no rows to score, or all have weight 0.")
        return right / rows

    def to_local(self) -> Any:
        """A copy of the fitted estimator, which does not need Dask."""
        return copy.deepcopy(self._fitted())

    def _fitted(self) -> Any:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This DaskClassifier instance is not fitted yet.")
        return self.estimator_

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in vars(self)

    def __getattr__(self, name: str) -> Any:
        """Fitted attributes such as `classes_` and `certificate_`."""
        if name.endswith("_") and not name.startswith("_") and "estimator_" in vars(self):
            return getattr(self.estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Hits(NamedTuple):
    """The question about the weights of correctly classified rows and of all rows."""

    classifier: Any

    def answer(self, shard: Any) -> tuple[float, float]:
        right = rows = 0.0
        for block in shard.blocks():
            check_consistent_length(block.X, block.y)
            weight = check_weights(block.weight, np.shape(block.X)[0])
            hits = np.asarray(self.classifier.predict(block.X) == np.asarray(block.y))
            right += float(weight @ (hits.all(axis=1) if hits.ndim == 2 else hits))
            rows += float(weight.sum())
        return right, rows

    def merged(self, answers: Sequence[tuple[float, float]]) -> tuple[float, float]:
        right, rows = np.sum(answers, axis=0).tolist()
        return right, rows


# ---------------------------------------------------------------------------------------- executor
class DaskExecutor:
    """Partitions in a cluster, as futures.

    Tasks are pure: the scheduler recomputes what is lost with a worker, to the bit.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def place(self, shards: Sequence[Any]) -> Sequence[Any]:
        with _as_cluster_errors():
            return [
                shard if isinstance(shard, distributed.Future) else self._submit(_itself, shard)
                for shard in shards
            ]

    def derive(self, function: Callable[..., Any], shards: Sequence[Any], *given: Any) -> Any:
        with _as_cluster_errors():
            sent = [self._submit(_itself, each) for each in given]
            found = self._map(derived, len(shards), function, shards, *sent)
            for shard in shards:  # needed only until the new ones are computed
                shard.release()
            return found

    def ask(self, question: Question, shards: Sequence[Any]) -> Any:
        with _as_cluster_errors():
            sent = self._submit(_itself, question)
            leaves = self._map(answer, len(shards), sent, shards)
            root = tree(leaves, lambda some: self._submit(merged, sent, some))
        try:
            return self._result(root, shards)
        finally:  # unfinished tasks are useless
            for future in (root, *leaves):
                future.release()

    def _map(self, function: Callable[..., Any], count: int, *given: Any) -> list[Any]:
        """Submit tasks together, since a message for each takes as long as some thousand rows.

        Arguments are lists with an item for each task, or the same for all.
        """
        each = [some if isinstance(some, list) else [some] * count for some in given]
        with dask.config.set(LARGE_GRAPH):
            return self.client.map(function, *each, pure=False)

    def _submit(self, function: Callable[..., Any], *given: Any) -> Any:
        with dask.config.set(LARGE_GRAPH):
            return self.client.submit(function, *given, pure=False)

    def _result(self, root: Any, shards: Sequence[Any]) -> Any:
        """The merged answer; the error of a shard that cannot be read names it."""
        try:
            with _as_cluster_errors():
                return self.client.gather(root)
        except Exception as error:
            failed = (k for k, shard in enumerate(shards) if shard.status == "error")
            if isinstance(error, ShardError) or (k := next(failed, None)) is None:
                raise
            raise ShardError.naming(f"partition {k}", shards[k].exception()) from error


def _itself(value: Any) -> Any:
    return value


@contextmanager
def _as_cluster_errors() -> Iterator[None]:
    """Lost connections raise a `ClusterError`."""
    try:
        yield
    except (distributed.CancelledError, OSError) as error:
        raise ClusterError(f"The scheduler of the Dask cluster was lost ({error}).") from error


# -------------------------------------------------------------------------------------- partitions
def _shards(
    executor: DaskExecutor, X: Any, y: Any, sample_weight: Any, options: dict[str, Any]
) -> Sequence[Any]:
    """Files, or futures of shards in memory."""
    if _are_paths(X):
        if y is not None or sample_weight is not None:
            raise ValueError("Files have labels, and weights, of their own: pass them alone.")
        return files(X, **options)
    if options:
        raise TypeError(f"{next(iter(options))!r} is an option of files only.")
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(X, da.Array):
        X = _whole_rows(X)
    parts = _parts(X, "X")
    labels, weights = _parts(y, "y", X), _parts(sample_weight, "sample_weight", X, len(parts))
    for name, others in (("y", labels), ("sample_weight", weights)):
        if len(others) != len(parts):
            raise ValueError(
                f"X and {name} must have the same partitions: {len(parts)} and {len(others)}."
            )
    held = [
        delayed(Held, pure=False)(k, f"partition {k}", *part)
        for k, part in enumerate(zip(parts, labels, weights, strict=True))
    ]
    with _as_cluster_errors():
        return executor.client.compute(held)


def _are_paths(X: Any) -> bool:
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(each, str | os.PathLike) for each in X)
    return isinstance(X, str | os.PathLike)


def _whole_rows(X: Any) -> Any:
    """A Dask array whose chunks have all columns."""
    if X.ndim != 2:
        raise ValueError(f"X must be an array of two dimensions, got {X.ndim}.")
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _parts(data: Any, name: str, like: Any = None, count: int = 0) -> list[Any]:
    """Delayed blocks of rows, in the partitions of ``like``; ``count`` times None without data."""
    if data is None:
        return [None] * count
    if isinstance(data, da.Array):
        is_known = (
            isinstance(like, da.Array) and not np.isnan([*like.chunks[0], *data.chunks[0]]).any()
        )
        if is_known and data.chunks[0] != like.chunks[0] and data.shape[0] == like.shape[0]:
            data = data.rechunk({0: like.chunks[0]})
        return list(data.to_delayed().ravel())
    if _is_frame(data):
        return list(data.to_delayed())
    if isinstance(data, list | tuple) and data and all(isinstance(each, Delayed) for each in data):
        return list(data)
    raise TypeError(
        f"{name} must be a Dask array or frame, a list of delayed blocks, or for X paths of files; "
        f"got {type(data).__name__}."
    )


def _is_frame(X: Any) -> bool:
    """Whether it is a frame or a series of Dask; `dask.dataframe` would need pandas."""
    return is_dask_collection(X) and hasattr(X, "map_partitions") and hasattr(X, "npartitions")


# --------------------------------------------------------------------------------------- predicting
def _lazily(local: Any, method: str, X: Any) -> Any:
    """The results of a method for each row, as the same kind of collection as ``X``."""
    if _are_paths(X):
        raise TypeError(
            f"{method} takes rows, not files: those are read by maxmargin.streams.open, or "
            "`maxmargin predict` with a model that was saved by save(clf.to_local(), ...)."
        )
    empty = _empty_result(local, method)
    if isinstance(X, da.Array):
        X = _whole_rows(X)
        how: dict[str, Any] = {"drop_axis": 1}
        if empty.ndim == 2:
            how = {"chunks": (X.chunks[0], (empty.shape[1],))}
        return X.map_blocks(_rows_of, local, method, dtype=empty.dtype, meta=empty, **how)
    if _is_frame(X):
        return X.map_partitions(_frame_of, local, method, meta=_frame(empty, X._meta.index[:0]))
    if isinstance(X, list | tuple) and X and all(isinstance(each, Delayed) for each in X):
        return [delayed(_rows_of)(part, local, method) for part in X]
    return getattr(local, method)(X)


def _empty_result(local: Any, method: str) -> np.ndarray:
    """The empty result of a method, which has its type and number of columns."""
    state: Any = state_of(local)
    nameless = with_state(local, state._replace(features=state.features._replace(names=None)))
    return getattr(nameless, method)(np.zeros((1, local.n_features_in_)))[:0]


def _rows_of(X: Any, local: Any, method: str) -> np.ndarray:
    if X.shape[0] == 0:
        return _empty_result(local, method)
    return getattr(local, method)(X)


def _frame_of(X: Any, local: Any, method: str) -> Any:
    return _frame(_rows_of(X, local, method), X.index)


def _frame(values: np.ndarray, index: Any) -> Any:
    import pandas as pd

    return (pd.Series if values.ndim == 1 else pd.DataFrame)(values, index=index)
