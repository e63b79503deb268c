"""Learners in river: what it asks of a classifier, in its own pipelines, loops and ensembles."""

import pickle

import numpy as np
import pandas as pd
import pytest
from extent import everything_or
from sklearn.datasets import load_breast_cancer

river = pytest.importorskip("river")

from river import checks, datasets, drift, ensemble, evaluate, metrics, preprocessing, stream  # noqa: E402

import maxmargin  # noqa: E402
from maxmargin import AMIRA, ConformalClassifier, MaxMargin, PassiveAggressive, Perceptron  # noqa: E402
from maxmargin.river import classifier  # noqa: E402

# One of each kind: vectors, pairs, classes together, a budget, experts.
FEW = ["PassiveAggressive", "PUMMA"]
ALL = [name for name in maxmargin.ALGORITHMS if hasattr(getattr(maxmargin, name)(), "learn_one")]


def learner(name):
    options = {"multiclass": "ovr"} if name == "AMIRA" else {}
    return getattr(maxmargin, name)(**options)


def rows(number=300):
    X, y = load_breast_cancer(return_X_y=True)
    names = [f"x{k}" for k in range(X.shape[1])]
    return [
        (dict(zip(names, x.tolist(), strict=True)), bool(t)) for x, t in zip(X, y, strict=True)
    ][:number]


def scaled(number=300):
    scaler, found = preprocessing.StandardScaler(), []
    for x, y in rows(number):
        scaler.learn_one(x)
        found.append((scaler.transform_one(x), y))
    return found


def test_prediction_sets_before_each_row():
    some = scaled(200)
    model = classifier(
        ConformalClassifier(PassiveAggressive(), coverage=0.8), classes=[False, True]
    )
    plain, covered = ConformalClassifier(PassiveAggressive(), coverage=0.8), 0
    assert model.predict_set_one(some[0][0]) == {False, True}
    assert (
        classifier(ConformalClassifier(PassiveAggressive(), coverage=0.8)).predict_set_one(
            some[0][0]
        )
        == set()
    )
    for k, (x, y) in enumerate(some):
        found = model.predict_set_one(x)
        if k:
            assert found == plain.predict_set_one(x)
            covered += y in found
        model.learn_one(x, y)
        plain.learn_one(x, y, classes=[False, True])
    coverage = model.estimator_.coverage_
    assert (coverage.rows, coverage.target) == (200, 0.8)
    assert abs(covered + 0.5 - 200 * coverage.observed) <= 0.5  # the first row has no set
    assert abs(coverage.observed - 0.8) <= coverage.bound
    with pytest.raises(AttributeError, match="predict_set_one"):
        classifier(PassiveAggressive()).predict_set_one(some[0][0])


def frame(some):
    return pd.DataFrame([x for x, _ in some]), pd.Series([y for _, y in some])


@pytest.mark.unseeded
@pytest.mark.parametrize("name", everything_or(FEW, ALL))
def test_river_checks(name):
    checks.check_estimator(classifier(learner(name)))


def test_it_learns_what_the_learner_learns():
    model, alone = classifier(PassiveAggressive(C=0.1)), PassiveAggressive(C=0.1)
    for x, y in scaled():
        model.learn_one(x, y)
        alone.learn_one(x, y, grow=True)
    assert np.array_equal(model.estimator_.coef_, alone.coef_)
    assert model.estimator_.certificate_.bound == alone.certificate_.bound


def test_pipeline_and_metrics():
    made = [metrics.Accuracy(), metrics.MacroF1(), metrics.ROCAUC()]
    for metric in made:
        model = preprocessing.StandardScaler() | classifier(PassiveAggressive(C=0.1))
        evaluate.progressive_val_score(rows(569), model, metric)
        assert metric.get() > 0.93
    model = preprocessing.StandardScaler() | classifier(maxmargin.AutoMargin())
    loss = metrics.LogLoss()
    evaluate.progressive_val_score(rows(569), model, loss)
    assert loss.get() < 0.3


def test_its_loop_counts_what_ours_counts():
    found = metrics.Accuracy()
    evaluate.progressive_val_score(scaled(), classifier(Perceptron(), [False, True]), found)
    ours = maxmargin.evaluate.progressive(Perceptron(), scaled(), classes=[False, True])
    assert found.get() == pytest.approx(ours.accuracy, abs=1e-12)


def test_several_classes_that_nobody_named():
    model = preprocessing.StandardScaler() | classifier(PassiveAggressive(C=0.01))
    found = metrics.Accuracy()
    evaluate.progressive_val_score(datasets.ImageSegments().take(1500), model, found)
    assert found.get() > 0.6
    probabilities = model.predict_proba_one(next(iter(datasets.ImageSegments()))[0])
    assert len(probabilities) == 7
    assert sum(probabilities.values()) == pytest.approx(1.0)


def test_frames_are_rows_to_the_bit():
    some = scaled()
    one, many = classifier(PassiveAggressive(C=0.1)), classifier(PassiveAggressive(C=0.1))
    weights = np.arange(1, len(some) + 1) % 3
    for (x, y), w in zip(some, weights.tolist(), strict=True):
        one.learn_one(x, y, w=w)
    for start in range(0, len(some), 70):
        part = slice(start, start + 70)
        X, y = frame(some[part])
        many.learn_many(X[reversed(X.columns)] if start == 70 else X, y, w=weights[part])
    assert np.array_equal(one.estimator_.coef_, many.estimator_.coef_)
    X, _ = frame(some)
    X.index = X.index + 7
    found = many.predict_many(X)
    assert found.index.equals(X.index)
    assert found.tolist() == [many.predict_one(x) for x, _ in some]
    shares = many.predict_proba_many(X)
    assert shares.iloc[5].to_dict() == pytest.approx(many.predict_proba_one(some[5][0]))


def test_frames_of_polars_and_with_text():
    polars = pytest.importorskip("polars")
    X = {"colour": ["red", "blue", "red", "green"], "size": [1.0, 2.0, 3.0, 4.0]}
    y = ["a", "b", "a", "c"]
    one, many = classifier(Perceptron()), classifier(Perceptron())
    for k, label in enumerate(y):
        one.learn_one({name: X[name][k] for name in X}, label)
    many.learn_many(polars.DataFrame(X), polars.Series(y))
    assert np.array_equal(one.estimator_.coef_, many.estimator_.coef_)
    assert isinstance(many.predict_many(polars.DataFrame(X)), polars.Series)


def test_a_refused_frame_leaves_the_model():
    model = classifier(Perceptron())
    X, y = frame(scaled(50))
    model.learn_many(X, y)
    before = model.estimator_.coef_.copy()
    X.iloc[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN \(row 3, column 'x2'\)"):
        model.learn_many(X, y)
    assert np.array_equal(model.estimator_.coef_, before)
    with pytest.raises(ValueError, match="X has 50 rows, and y has 49 labels"):
        model.learn_many(X, y[:49])


def test_clones_begin_anew_and_pickles_go_on():
    model = classifier(PassiveAggressive(C=0.1))
    for x, y in scaled(100):
        model.learn_one(x, y)
    fresh, again = model.clone(), pickle.loads(pickle.dumps(model))
    assert fresh.predict_one(scaled(1)[0][0]) is None
    assert not hasattr(model.learner, "coef_")
    for x, y in scaled(200)[100:]:
        model.learn_one(x, y)
        again.learn_one(x, y)
    assert np.array_equal(model.estimator_.coef_, again.estimator_.coef_)
    assert model.clone({"learner": PassiveAggressive(C=7.0)}).estimator_.C == 7.0


def test_a_fitted_learner_goes_on():
    X, y = load_breast_cancer(as_frame=True, return_X_y=True)
    fitted = PassiveAggressive(C=0.1, max_iter=5, random_state=0).fit(X / X.max(), y)
    model = classifier(fitted)
    before = fitted.coef_.copy()
    for x, label in stream.iter_frame(X.head(30) / X.max(), y.head(30)):
        assert model.predict_one(x) in (0, 1)
        model.learn_one(x, label)
    assert np.array_equal(fitted.coef_, before)
    assert model.estimator_.n_mistakes_ >= fitted.n_mistakes_


def test_drift_detectors_and_ensembles():
    stream_of = scaled(569)
    for model in (
        drift.DriftRetrainingClassifier(classifier(Perceptron()), drift.binary.DDM()),
        ensemble.ADWINBaggingClassifier(classifier(Perceptron()), n_models=3, seed=1),
        ensemble.VotingClassifier([classifier(Perceptron()), classifier(PassiveAggressive())]),
    ):
        found = metrics.Accuracy()
        evaluate.progressive_val_score(stream_of, model, found)
        assert found.get() > 0.85, model


def test_refusals():
    with pytest.raises(TypeError, match="MaxMargin has no partial_fit"):
        classifier(MaxMargin())
    with pytest.raises(ValueError, match="multiclass='k-best' learns all classes together"):
        classifier(AMIRA())
    assert classifier(AMIRA(), classes=["a", "b", "c"]).predict_one({"x": 1.0}) == "a"
    model = classifier(Perceptron(), classes=[False, True])
    model.learn_one({"x": 1.0}, True)
    with pytest.raises(ValueError, match="not among the classes"):
        model.learn_one({"x": 1.0}, "what")
