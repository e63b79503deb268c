"""The ways in which scikit-learn's users pass models on."""

import io
import pickle

import joblib
import pytest
from persistence.states import every_estimator, fitted, known_to, made, states, streamed, streams

from maxmargin import Perceptron

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
    data = skops.dumps(clf)
    unknown = skops.get_untrusted_types(data=data)
    assert all(name.startswith("maxmargin.") for name in unknown), unknown
    assert known_to(skops.loads(data, trusted=unknown)) == known_to(clf)


@needs_skops
@every_estimator
def test_skops_goes_on(Estimator):
    clf = (streamed if streams(Estimator) else fitted)(made(Estimator))
    data = skops.dumps(clf)
    again = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    assert known_to(fitted(again)) == known_to(fitted(clf))
