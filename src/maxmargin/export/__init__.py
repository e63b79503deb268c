"""Export of learners to ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.export.graph import Graph
from maxmargin.export.model_nodes import outputs
from maxmargin.export.recipe_nodes import features
from maxmargin.training.outputs import Decision, decision_of
from maxmargin.training.platt import LARGEST, Sigmoids

DTYPES = {"float32": np.float32, "float64": np.float64}


def to_onnx(clf: Any, *, dtype: str = "float64") -> Any:
    """Convert a fitted learner to an ONNX model.

    Inputs:

    - ``X``, of shape (N, n_features), or the raw columns of a recipe, each an input with its name
      and the shape (N, 1): numbers of `dtype`, NaN if missing, and categories as strings without
      surrounding blanks, "" if missing.

    Outputs:

    - ``label``: as `predict`, of shape (N,), strings or int64 (False and True are 0 and 1); of
      shape (N, n_labels), 0 and 1, if rows can have several labels;
    - ``scores``: as `decision_function`, of shape (N,) for two classes, else (N, n_classes);
    - ``probabilities``: as `predict_proba`, of shape (N, n_classes), with
      ``calibration="loo"`` and of `NOCA`.

    Everything is computed in double precision. The graph has IR version 8 and opset 15 (and 2 of
    ai.onnx.ml if there are categories), which onnxruntime reads from version 1.10 on.

    Parameters
    ----------
    clf : estimator
        A fitted learner of this library. For a pipeline of scikit-learn, see `docs/deploy.md`.
    dtype : {"float64", "float32"}, default="float64"
        Type of numbers in inputs, scores and probabilities.

    Returns
    -------
    onnx.ModelProto

    Notes
    -----
    A graph does not check its inputs: NaN gives scores that are NaN, unless a recipe imputes it. A
    score that is 0 up to rounding may get the other label. Kernels that are Python functions, and
    dates, words and hashes of a recipe, cannot be exported: an error names them.

    Examples
    --------
    >>> from maxmargin import Perceptron, to_onnx
    >>> clf = Perceptron().fit([[0.0], [1.0]], ["no", "yes"])
    >>> model = to_onnx(clf, dtype="float32")
    >>> [output.name for output in model.graph.output]
    ['label', 'scores']
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be 'float32' or 'float64', got {dtype!r}.")
    number, decision, graph = DTYPES[dtype], decision_of(clf), Graph()
    rows = features(graph, decision.features, decision.recipe, number)
    answers = outputs(decision.formula, graph, rows)
    if decision.shown != slice(None):
        answers = graph("Gather", answers, np.arange(decision.shown.stop)[decision.shown], axis=1)
    several = [decision.classes.size] if decision.multilabel or decision.classes.size > 2 else []
    kind, label = _label(graph, decision, answers)
    graph.output("label", label, kind, *(several if decision.multilabel else []))
    probabilities = _probabilities(graph, decision, answers)
    scores = probabilities if decision.by_density else answers
    if not several and decision.by_density:
        scores = graph("Sub", graph("Gather", scores, np.array(1), axis=1), 0.5)
    elif not several:
        scores = graph("Squeeze", scores, np.array([1]))
    graph.output("scores", graph.cast(scores, number), number, *several)
    if probabilities is not None:
        graph.output(
            "probabilities", graph.cast(probabilities, number), number, decision.classes.size
        )
    return graph.model(type(clf).__name__, str(clf))


def _label(graph: Graph, decision: Decision, scores: str) -> tuple[Any, str]:
    """The type of the label, and its value."""
    classes = decision.classes
    if decision.multilabel or classes.size <= 2:
        codes = graph.cast(graph("GreaterOrEqual", scores, 0.0), np.int64)
        if decision.multilabel:
            return np.int64, codes
        codes = graph("Squeeze", codes, np.array([1]))
        if classes.size == 1:
            codes = graph("Mul", codes, np.array(0))
    else:
        codes = graph("ArgMax", scores, axis=1, keepdims=0)
    labels = _labels(classes)
    return str if labels.dtype == object else np.int64, graph("Gather", labels, codes, axis=0)


def _labels(classes: np.ndarray) -> np.ndarray:
    """The classes as labels of ONNX: integers or strings."""
    if all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(object)
    try:
        numbers = classes.astype(np.int64)
    except (TypeError, ValueError):
        numbers = None
    if numbers is None or not (numbers == classes).all():
        raise ValueError(
            f"Labels of ONNX are whole numbers or strings, which {classes.tolist()[:3]} are not."
        )
    return numbers


def _probabilities(graph: Graph, decision: Decision, answers: str) -> Any:
    """The name of a matrix of probabilities; None if there are none."""
    if decision.by_density:
        odds = answers
    elif decision.sigmoids is None:
        return None
    else:
        odds = _odds(graph, decision.sigmoids, answers)
    if decision.multilabel:
        return graph("Sigmoid", odds)
    if decision.classes.size == 2:
        return graph("Sigmoid", graph("MatMul", odds, np.array([[-1.0, 1.0]])))
    is_log = decision.by_density or decision.joint
    return graph("Softmax", odds if is_log else _log_sigmoid(graph, odds), axis=1)


def _odds(graph: Graph, sigmoids: Sigmoids, scores: str) -> str:
    sizes = graph("Div", scores, sigmoids.scales)
    sizes = graph("Clip", sizes, -LARGEST, LARGEST)
    return graph("Add", graph("Mul", sizes, sigmoids.slopes), sigmoids.offsets)


def _log_sigmoid(graph: Graph, odds: str) -> str:
    """Without overflow: ``min(odds, 0) - log(1 + exp(-|odds|))``."""
    below = graph("Log", graph("Add", graph("Exp", graph("Neg", graph("Abs", odds))), 1.0))
    return graph("Sub", graph("Min", odds, 0.0), below)
