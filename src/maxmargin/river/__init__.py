"""Learners as classifiers of river: in its pipelines, its evaluation and its ensembles.

It needs ``pip install "maxmargin[river]"``. See ``docs/river.md``.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import softmax
from sklearn.exceptions import NotFittedError

from maxmargin.algorithms.passiveaggressive import PassiveAggressive
from maxmargin.estimator import OnlineClassifier

try:
    import narwhals.stable.v2 as nw
    from river import base
    from river.utils import dataframe
except ImportError as error:
    raise ImportError("maxmargin.river needs river: pip install 'maxmargin[river]'") from error


def classifier(learner: OnlineClassifier, classes: Sequence[Any] | None = None) -> RiverClassifier:
    """Turn a learner into a river classifier.

    Parameters
    ----------
    learner : estimator
        Any that learns from rows as they come. It stays as it is: a copy goes on from what it
        knows.
    classes : list of labels, default=None
        All labels that can occur. By default any may come at any time; learners that learn several
        classes together, `AMIRA` by default, must be told.

    Returns
    -------
    RiverClassifier

    Examples
    --------
    >>> from maxmargin import PassiveAggressive
    >>> from maxmargin.river import classifier
    >>> from river import evaluate, metrics, preprocessing, stream
    >>> from sklearn.datasets import load_breast_cancer
    >>> model = preprocessing.StandardScaler() | classifier(PassiveAggressive(C=0.1))
    >>> rows = stream.iter_sklearn_dataset(load_breast_cancer())
    >>> evaluate.progressive_val_score(rows, model, metrics.Accuracy())
    Accuracy: 94.37%
    """
    return RiverClassifier(learner, classes)


class RiverClassifier(base.MiniBatchClassifier):
    """A river classifier that wraps a learner of this library; see `classifier`.

    Parameters
    ----------
    learner : estimator
    classes : list of labels, default=None

    Attributes
    ----------
    estimator_ : estimator
        The copy that learns, with its weights, counts and certificate.
    """

    def __init__(self, learner: OnlineClassifier, classes: Sequence[Any] | None = None) -> None:
        if not (hasattr(learner, "learn_one") and hasattr(learner, "partial_fit")):
            raise TypeError(
                f"river needs a learner that takes rows as they come, and "
                f"{type(learner).__name__} has no partial_fit."
            )
        together = getattr(learner, "multiclass", "ovr")
        if classes is None and together != "ovr" and not learner.__sklearn_is_fitted__():
            raise ValueError(
                f"multiclass={together!r} learns all classes together: pass classes=[...], or "
                "a learner with multiclass='ovr'."
            )
        self.learner = learner
        self.classes = classes
        self.estimator_ = copy.deepcopy(learner)
        self._any_label = classes is None

    # ------------------------------------------------------------------------------------ one row
    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn from a row of weight ``w``.

        Parameters
        ----------
        x : dict
            Numbers, or text, which is an entry 1 of the column "name=text".
        y : label
        w : float, default=1.0
        """
        x = x if isinstance(x, dict) else dict(x)
        self.estimator_.learn_one(x, y, w=w, classes=self.classes, grow=self._any_label)

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Predict the class of a row; None before the first row."""
        x = x if isinstance(x, dict) else dict(x)
        return self.estimator_.predict_one(x, classes=self.classes, grow=self._any_label)

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Probabilities where the learner has them; else the logistic function of the score.

        The latter, softmax for more than two classes, is what linear models of river give. It has
        the right order, and is right or wrong by any factor.
        """
        learner = self.estimator_
        x = x if isinstance(x, dict) else dict(x)
        try:
            if hasattr(learner, "predict_proba_one"):
                return learner.predict_proba_one(x)
            score = learner.decision_one(x)
        except NotFittedError:
            return _even(self.classes)
        labels = learner.classes_.tolist()
        if len(labels) == 2:
            chance = 0.5 + 0.5 * math.tanh(0.5 * score)
            return {labels[0]: 1.0 - chance, labels[1]: chance}
        return dict(zip(labels, softmax(np.ravel(score)).tolist(), strict=True))

    def predict_set_one(self, x: Mapping[Any, Any]) -> set[Any]:
        """The set of a row, by a `ConformalClassifier`; before the first row all classes."""
        learner = self.estimator_
        if hasattr(learner, "predict_set_one") and not hasattr(learner, "classes_"):
            return set() if self.classes is None else set(np.asarray(self.classes).tolist())
        return learner.predict_set_one(x if isinstance(x, dict) else dict(x))

    # ----------------------------------------------------------------------------------- many rows
    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn from the rows of a frame; the same, to the bit, as `learn_one` for each.

        Parameters
        ----------
        X : frame of pandas, Polars or pyarrow
            Columns may come and go from one call to the next.
        y : series
        w : float or series, default=1.0
        """
        frame, labels = dataframe.into_frame(X), _labels(dataframe.into_series(y))
        weights = np.broadcast_to(np.asarray(w, dtype=np.float64), labels.shape)
        if len(frame) != len(labels):
            raise ValueError(f"X has {len(frame)} rows, and y has {len(labels)} labels.")
        values = _numbers(frame)
        if values is None or not len(frame):
            for x, label, weight in zip(
                _dicts(frame), labels.tolist(), weights.tolist(), strict=True
            ):
                self.learn_one(x, label, weight)
            return
        # Columns for all names; a row that counts 0 times is not learned from.
        names = dict.fromkeys(frame.columns, 0.0)
        known = getattr(self.estimator_, "columns_", {})
        if not names.keys() <= known.keys():
            self.learn_one(names, labels[0], 0.0)
        options = {} if (weights == 1.0).all() else {"sample_weight": weights}
        rows = self._sparse_rows(frame.columns, values)
        self.estimator_.partial_fit(
            rows, labels, classes=self.classes, grow=self._any_label, **options
        )

    def predict_many(self, X: Any) -> Any:
        """The classes of the rows of a frame, as a series."""
        frame = dataframe.into_frame(X)
        values = _numbers(frame)
        if values is None or not len(frame) or not hasattr(self.estimator_, "columns_"):
            found: Any = [self.predict_one(x) for x in _dicts(frame)]
        else:
            found = self.estimator_.predict(self._sparse_rows(frame.columns, values))
        return dataframe.to_native_series(found, name=None, like=frame)

    def predict_proba_many(self, X: Any) -> Any:
        """The probabilities of `predict_proba_one` for the rows of a frame, as a frame."""
        frame = dataframe.into_frame(X)
        probabilities = [self.predict_proba_one(x) for x in _dicts(frame)]
        labels = list(probabilities[0]) if probabilities else []
        columns = {label: [each[label] for each in probabilities] for label in labels}
        return dataframe.to_native_frame(columns, like=frame)

    def _sparse_rows(self, names: Sequence[Any], values: np.ndarray) -> sparse.csr_matrix:
        """The rows as dicts would be: entries for the names that have columns, also of 0."""
        columns = self.estimator_.columns_
        places = sorted(
            (columns[name], place) for place, name in enumerate(names) if name in columns
        )
        indices = np.tile(np.array([column for column, _ in places], dtype=np.int32), len(values))
        starts = np.arange(len(values) + 1, dtype=np.int32) * len(places)
        entries = values[:, [place for _, place in places]].ravel()
        return sparse.csr_matrix((entries, indices, starts), (len(values), len(columns)))

    # -------------------------------------------------------------------------- what river asks for
    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _raw_memory_usage(self) -> int:
        """The bytes of what was learned; river would count machine code as well."""
        return len(pickle.dumps(self))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": PassiveAggressive(C=1.0)}


def _even(classes: Sequence[Any] | None) -> dict[Any, float]:
    """What is known of a row before anything was learned."""
    labels = np.unique([] if classes is None else classes).tolist()
    return {label: 1.0 / len(labels) for label in labels}


def _numbers(frame: Any) -> np.ndarray | None:
    """The values of a frame; None if there is text in it."""
    numeric = (kind.is_numeric() or kind == nw.Boolean for kind in frame.schema.values())
    return dataframe.to_numpy(frame) if all(numeric) else None


def _labels(series: Any) -> np.ndarray:
    """The labels of a series; words as NumPy has them, not as objects."""
    labels = series.to_numpy()
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels):
        return labels.astype(str)
    return labels


def _dicts(frame: Any) -> Iterator[dict[Any, Any]]:
    return frame.iter_rows(named=True)
