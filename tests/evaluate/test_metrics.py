"""Metrics along a stream are those that scikit-learn computes of the same predictions."""

from functools import partial

import numpy as np
import pytest
from problems import overlapping, three_classes
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    cohen_kappa_score,
    confusion_matrix,
    f1_score,
    log_loss,
    make_scorer,
    matthews_corrcoef,
    roc_auc_score,
)

from maxmargin import ALMA, NOCA, NORMA, Perceptron
from maxmargin.evaluate import progressive, progressive_run

ROWS, STEP = 230, 50
LOOKS = [50, 100, 150, 200, 230]


def rows_of(classes):
    X, y = overlapping(n=ROWS, d=4) if classes == 2 else three_classes(n=ROWS, d=4)
    y = np.where(np.arange(ROWS) % 10 == 7, np.roll(y, 1), y)  # some wrong labels
    return X, y


def said_by(clf, X, y):
    """Classes, scores and probabilities, each before its row was learned."""
    classes, predicted, scores, probabilities = np.unique(y), [], [], []
    for i in range(ROWS):
        row = X[i : i + 1]
        if i == 0:
            predicted.append(classes[-1] if classes.size == 2 else classes[0])
            scores.append(np.zeros(1 if classes.size == 2 else classes.size))
            probabilities.append(np.full(classes.size, 1 / classes.size))
        else:
            predicted.append(clf.predict(row)[0])
            if hasattr(clf, "decision_function"):
                scores.append(clf.decision_function(row).ravel())
            if hasattr(clf, "predict_proba"):
                probabilities.append(clf.predict_proba(row)[0])
        clf.partial_fit(row, y[i : i + 1], classes=classes)
    return (
        np.array(predicted),
        np.array(scores) if len(scores) == ROWS else None,
        np.array(probabilities),
    )


def expected(function, y, response, window):
    """At each look of all rows, and of the last ones."""
    so_far = [function(y[:stop], response[:stop]) for stop in LOOKS]
    recent = [
        function(y[max(0, stop - window) : stop], response[max(0, stop - window) : stop])
        for stop in LOOKS
    ]
    return so_far, recent


def right_twice(y_true, y_pred):
    """Knows of no weights."""
    return 2.0 * np.mean(y_true == y_pred)


OF_CLASSES = {
    "accuracy": accuracy_score,
    "balanced_accuracy": balanced_accuracy_score,
    "f1_macro": partial(f1_score, average="macro"),
    "matthews_corrcoef": matthews_corrcoef,
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("window", [None, 80])
@pytest.mark.parametrize(
    "clf", [Perceptron, partial(Perceptron, average=True), NOCA], ids=["loop", "rows", "NOCA"]
)
def test_metrics_of_classes(clf, classes, window):
    X, y = rows_of(classes)
    predicted, _, _ = said_by(clf(), X, y)
    metrics = {name: name for name in OF_CLASSES}
    metrics["kappa"], metrics["twice"] = make_scorer(cohen_kappa_score), make_scorer(right_twice)
    metrics["scorer"] = make_scorer(f1_score, average="macro")
    found = progressive(clf(), X, y, step=STEP, metrics=metrics, window=window)
    assert found.trials.tolist() == LOOKS
    functions = {**OF_CLASSES, "kappa": cohen_kappa_score, "twice": right_twice}
    functions["scorer"] = functions["f1_macro"]
    for name, function in functions.items():
        so_far, recent = expected(function, y, predicted, window or STEP)
        np.testing.assert_allclose(found.metrics[name], so_far, err_msg=name)
        np.testing.assert_allclose(found.recent_metrics[name], recent, err_msg=name)


@pytest.mark.parametrize(
    "clf", [ALMA, partial(NORMA, kernel="rbf", gamma=0.5)], ids=["ALMA", "rbf"]
)
def test_metrics_of_scores(clf):
    X, y = rows_of(2)
    _, scores, _ = said_by(clf(), X, y)
    found = progressive(clf(), X, y, step=STEP, metrics=["roc_auc", "average_precision"], window=70)
    for name, function in {
        "roc_auc": roc_auc_score,
        "average_precision": average_precision_score,
    }.items():
        so_far, recent = expected(function, y, scores.ravel(), 70)
        np.testing.assert_allclose(found.metrics[name], so_far)
        np.testing.assert_allclose(found.recent_metrics[name], recent)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "clf",
    [partial(SGDClassifier, loss="log_loss", random_state=0), NOCA],
    ids=["SGD", "NOCA"],
)
def test_metrics_of_probabilities(clf, classes):
    X, y = rows_of(classes)
    labels = np.unique(y)
    _, _, probabilities = said_by(clf(), X, y)
    found = progressive(clf(), X, y, step=STEP, metrics="neg_log_loss")
    so_far, recent = expected(partial(log_loss, labels=labels), y, probabilities, STEP)
    np.testing.assert_allclose(found.metrics["neg_log_loss"], -np.array(so_far))
    np.testing.assert_allclose(found.recent_metrics["neg_log_loss"], -np.array(recent))


def test_several_learners_and_late_labels():
    X, y = rows_of(2)
    options = {"step": STEP, "delay": 9, "metrics": ["balanced_accuracy", "roc_auc"]}
    together = progressive([Perceptron(), Perceptron(average=True)], X, y, **options)
    for one, clf in zip(together, (Perceptron(), Perceptron(average=True)), strict=True):
        alone = progressive(clf, X, y, **options)
        for name in options["metrics"]:
            np.testing.assert_array_equal(one.metrics[name], alone.metrics[name])
            np.testing.assert_array_equal(one.recent_metrics[name], alone.recent_metrics[name])


def test_a_metric_that_rows_do_not_define_is_not_a_number():
    X, y = rows_of(2)
    y = np.sort(y)  # one class first
    found = progressive(Perceptron(), X, y, step=STEP, metrics=["roc_auc", "f1"])
    first = np.flatnonzero(y == 1)[0]
    assert (np.isnan(found.metrics["roc_auc"]) == (found.trials <= first)).all()
    assert np.isnan(found.recent_metrics["roc_auc"][-1])
    assert not np.isnan(found.metrics["f1"]).any()


def test_rows_are_kept_up_to_a_limit(monkeypatch):
    X, y = rows_of(2)
    monkeypatch.setattr(progressive_run, "MOST_SCORES", 120)
    found = progressive(Perceptron(), X, y, step=STEP, metrics=["roc_auc", "f1"])
    assert np.isnan(found.metrics["roc_auc"]).tolist() == [False, False, True, True, True]
    assert not np.isnan(found.recent_metrics["roc_auc"]).any()
    assert not np.isnan(found.metrics["f1"]).any()


def test_dicts_have_classes_only():
    X, y = rows_of(2)
    rows = [(dict(zip("abcd", x, strict=True)), c) for x, c in zip(X.tolist(), y, strict=True)]
    options = {"step": STEP, "classes": [-1, 1]}
    found = progressive(Perceptron(), rows, metrics="f1", **options)
    expected = progressive(Perceptron(), X, y, step=STEP, metrics="f1")
    np.testing.assert_array_equal(found.metrics["f1"], expected.metrics["f1"])
    with pytest.raises(ValueError, match="roc_auc needs more than the predicted class of a dict"):
        progressive(Perceptron(), rows, metrics="roc_auc", **options)


# ---------------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("balanced_acuracy", "'balanced_acuracy' is not a valid scoring value"),
        ([make_scorer(f1_score)], "or a dict that gives a name to each scorer"),
        ({"f": f1_score}, "metric function rather than a scorer.*use `make_scorer`"),
        ({"f": 3}, "expected the name of a scorer or a scorer, got 3"),
        ("neg_log_loss", "neg_log_loss for Perceptron: it needs scores or probabilities"),
        ("f1", "f1 for Perceptron: Target is multiclass"),
        ({"table": make_scorer(confusion_matrix)}, "table for Perceptron: it must give one number"),
        ({"f": lambda y: 0.0}, "f for Perceptron: it is no scorer of estimator, X and y"),
    ],
)
def test_metrics_that_cannot_be(metrics, message):
    X, y = rows_of(3)
    clf = Perceptron()
    with pytest.raises(ValueError, match=message):
        progressive(clf, X, y, metrics=metrics)
    assert not hasattr(clf, "classes_")


@pytest.mark.parametrize("window", [0, 2.5])
def test_window_must_be_a_number_of_rows(window):
    X, y = rows_of(2)
    with pytest.raises(ValueError, match="window must be a whole number of at least 1"):
        progressive(Perceptron(), X, y, metrics="f1", window=window)


def test_classes_must_be_known_to_metrics():
    X, y = rows_of(2)
    with pytest.raises(ValueError, match="classes must be passed"):
        progressive(Perceptron(), [(X, y)], metrics="f1")
