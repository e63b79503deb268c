"""The report of a test says what a guess would reach, and whether the model only guesses."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    log_loss,
    precision_score,
    recall_score,
    roc_auc_score,
)

from maxmargin.cli.output import score_lines
from maxmargin.evaluate.predictions import Scores


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_all_numbers_are_those_of_scikit_learn(classes, seed):
    random = np.random.default_rng(seed)
    labels = np.array(["b", "g", "r"])[:classes]
    y, predicted = random.choice(labels, 60), random.choice(labels, 60)
    outputs = random.normal(size=60)
    scores = Scores(labels)
    for part in np.array_split(np.arange(60), 4):
        scores.add(y[part], predicted[part], outputs[part] if classes == 2 else None)
    found = scores.report()
    assert found["rows"] == 60
    assert found["accuracy"] == pytest.approx(accuracy_score(y, predicted))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted))
    assert found["confusion"] == confusion_matrix(y, predicted, labels=labels).tolist()
    assert found["largest_class"] == max(np.mean(y == each) for each in labels)
    for kind, score in (("recall", recall_score), ("precision", precision_score)):
        wanted = score(y, predicted, labels=labels, average=None)
        np.testing.assert_allclose([each[kind] for each in found["classes"]], wanted)
    if classes == 2:
        assert found["auc"] == pytest.approx(roc_auc_score(y == "g", outputs))
    else:
        assert found["auc"] is None


def test_a_model_that_never_says_yes():
    scores = Scores(np.array([0, 1]))
    y = np.zeros(1000, dtype=int)
    y[:26] = 1
    scores.add(y, np.zeros(1000, dtype=int), np.full(1000, -1.0))
    report = scores.report()
    assert (report["accuracy"], report["largest_class"]) == (0.974, 0.974)
    assert (report["balanced_accuracy"], report["auc"]) == (0.5, 0.5)
    lines = score_lines(report)
    assert lines["accuracy"] == "97.40 % on 1,000 test rows; largest class: 97.40 %"
    assert lines["warning"].startswith("the model predicts 0 for every row")
    assert lines["  1"] == "recall 0.00 % of 26 rows; precision - of 0 predictions"


def test_labels_that_nobody_learned():
    scores = Scores(np.array([0, 1]))
    scores.add(np.array([0, 1, 7]), np.array([0, 1, 1]), np.array([-1.0, 1.0, 2.0]))
    report = scores.report()
    assert (report["mistakes"], report["unknown_labels"], report["auc"]) == (1, 1, 1.0)
    assert (
        score_lines(report)["unknown"]
        == "labels of 1 rows are not known to the model, such as 7; accuracy and precision count "
        "them as errors; recall, AUC and log loss leave them out"
    )


def test_log_loss_of_rows_with_labels_that_are_known():
    labels, y = np.array(["a", "b", "c"]), np.array(["a", "b", "c", "b", "z"])
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 5)
    probabilities[0] = [0.0, 0.5, 0.5]  # sure, and wrong
    scores = Scores(labels)
    scores.add(y[:2], labels[probabilities[:2].argmax(axis=1)], None, probabilities[:2])
    scores.add(y[2:], labels[probabilities[2:].argmax(axis=1)], None, probabilities[2:])
    report = scores.report()
    assert report["log_loss"] == pytest.approx(log_loss(y[:4], probabilities[:4], labels=labels))
    assert score_lines(report)["balanced"].endswith(f"; log loss {report['log_loss']:.4f}")


def test_only_one_class_is_there():
    scores = Scores(np.array([0, 1]))
    scores.add(np.array([1, 1]), np.array([1, 0]), np.array([1.0, -1.0]))
    report = scores.report()
    assert (report["auc"], report["balanced_accuracy"]) == (None, 0.5)


def test_the_command(report, command, folder):
    given = ("fit", folder / "rows.svm", "-a", "perceptron", "--test", folder / "rows.svm")
    said = report(*given)["test"]
    assert said["rows"] == sum(map(sum, said["confusion"]))
    assert 0.5 <= said["auc"] <= 1.0
    _, printed, _ = command(*given)
    assert "largest class:" in printed
    assert "mean recall over the classes; AUC" in printed
