"""The ways in which scikit-learn's users pass models on."""

import importlib
import io
import pickle

import joblib
import pytest
from persistence.states import every_estimator, fitted, known_to, made, states, streamed, streams
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import PUMMA, ConformalClassifier, Forgetron, LabelQueries, Perceptron
from maxmargin.persistence import TRUSTED_TYPES
from maxmargin.streams import Recipe
from maxmargin.training.protocol import state_of

try:
    import skops.io as skops  # not within a test: it draws random numbers when it is imported
except ModuleNotFoundError:
    skops = None
needs_skops = pytest.mark.skipif(skops is None, reason="skops is not installed")

ALL = [(name, make) for name, make, _ in states() if name.endswith(("streamed", "fitted"))]
every_state = pytest.mark.parametrize(
    "make", [each[1] for each in ALL], ids=[each[0] for each in ALL]
)


def through_joblib(clf):
    file = io.BytesIO()
    joblib.dump(clf, file)
    file.seek(0)
    return joblib.load(file)


@every_state
def test_pickle_and_joblib_keep_everything(make):
    clf = make()
    for again in (pickle.loads(pickle.dumps(clf)), through_joblib(clf)):
        assert known_to(again) == known_to(clf)


def test_pickles_are_of_the_learner_alone():
    """What is prepared for single rows is machine code, and made anew."""
    clf = streamed(made(Perceptron))
    clf.predict_one([0.0, 0.0, 0.0])
    assert "_one_row" in vars(clf)
    assert "_one_row" not in vars(pickle.loads(pickle.dumps(clf)))


@needs_skops
@every_state
def test_skops_needs_to_trust_our_own_classes_only(make):
    clf = make()
    again = skops.loads(skops.dumps(clf), trusted=TRUSTED_TYPES)
    assert known_to(again) == known_to(clf)


@needs_skops
@pytest.mark.parametrize(
    "clf",
    [
        Forgetron(kernel="linear"),
        PUMMA(p=3.0, fit_intercept=False),
    ],
    ids=["linear kernel", "planes"],
)
def test_trusted_types_are_those_of_other_parts_too(clf):
    streamed(clf)
    again = skops.loads(skops.dumps(clf), trusted=TRUSTED_TYPES)
    assert known_to(again) == known_to(clf)


@needs_skops
@pytest.mark.parametrize(
    "clf", [ConformalClassifier(Perceptron()), LabelQueries(Perceptron(), random_state=0)], ids=repr
)
def test_wrappers_are_kept(clf):
    streamed(clf)
    again = skops.loads(skops.dumps(clf), trusted=TRUSTED_TYPES)
    assert known_to(state_of(again)) == known_to(state_of(clf))


@needs_skops
def test_a_recipe_goes_along():
    pytest.importorskip("pyarrow")
    rows = [{"age": float(k), "city": "Ulm" if k % 3 else "Rome"} for k in range(20)]
    labels = ["old" if row["age"] > 9.0 else "young" for row in rows]
    clf = Perceptron().fit_stream(list(zip(rows, labels, strict=True)), recipe=Recipe())
    for again in (
        skops.loads(skops.dumps(clf), trusted=TRUSTED_TYPES),
        pickle.loads(pickle.dumps(clf)),
    ):
        assert again.recipe_.get_params() == clf.recipe_.get_params()
        assert known_to(again.recipe_.tree()) == known_to(clf.recipe_.tree())
        assert again.decision_function(rows).tolist() == clf.decision_function(rows).tolist()


@needs_skops
def test_pipelines():
    frame = {"age": [3.0, 5.0, None, 9.0] * 5, "city": ["Ulm", "Rome", "Ulm", "Bern"] * 5}
    pandas = pytest.importorskip("pandas")
    rows, labels = pandas.DataFrame(frame), ["yes", "no", "yes", "no"] * 5
    steps = Recipe(), StandardScaler(with_mean=False), Perceptron(random_state=0)
    clf = make_pipeline(*steps).fit(rows, labels)
    again = skops.loads(skops.dumps(clf), trusted=TRUSTED_TYPES)
    assert again.decision_function(rows).tolist() == clf.decision_function(rows).tolist()
    assert known_to(again.fit(rows, labels)[-1]) == known_to(clf.fit(rows, labels)[-1])


def test_trusted_types_are_classes():
    for name in TRUSTED_TYPES:
        module, _, part = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), part), type)


@needs_skops
@every_estimator
def test_skops_goes_on(Estimator):
    clf = (streamed if streams(Estimator) else fitted)(made(Estimator))
    data = skops.dumps(clf)
    again = skops.loads(data, trusted=TRUSTED_TYPES)
    assert known_to(fitted(again)) == known_to(fitted(clf))
