"""Fitted classifiers of scikit-learn go on here: the same predictions, then the same steps."""

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import scale

from maxmargin import certify, from_sklearn, load, save

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def sgd(**options):
    return linear_model.SGDClassifier(random_state=0, shuffle=False, **options)


def passive_aggressive(**options):
    kind = getattr(linear_model, "PassiveAggressiveClassifier", None)
    if kind is None:
        pytest.skip("this scikit-learn has none")
    return kind(random_state=0, shuffle=False, **options)


def perceptron(**options):
    return linear_model.Perceptron(random_state=0, shuffle=False, **options)


def data(load_data):
    X, y = load_data(return_X_y=True)
    return scale(X), y


CASES = {
    "Perceptron": lambda: perceptron(eta0=0.5),
    "PassiveAggressive": lambda: passive_aggressive(C=0.1),
    "PassiveAggressive, squared": lambda: passive_aggressive(C=0.1, loss="squared_hinge"),
    "Pegasos": lambda: sgd(alpha=0.01),
    "NORMA": lambda: sgd(learning_rate="constant", eta0=0.01, alpha=0.1),
    "Perceptron, by loss": lambda: sgd(
        loss="perceptron", learning_rate="constant", eta0=0.1, penalty=None
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("load_data", [load_breast_cancer, load_iris])
@pytest.mark.parametrize("intercept", [True, False])
def test_it_predicts_the_same_and_goes_on(case, load_data, intercept):
    X, y = data(load_data)
    theirs = CASES[case]().set_params(fit_intercept=intercept).fit(X, y)
    ours = from_sklearn(theirs)
    assert type(ours).__name__ == case.partition(",")[0]
    assert np.allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-12)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    assert ours.n_updates_ == 0
    ours.partial_fit(X, y)
    assert ours.n_updates_ > 0
    assert ours.certificate_.bound >= certify(ours, X, y).margin


@pytest.mark.parametrize("case", ["Perceptron", "PassiveAggressive", "NORMA"])
def test_the_next_steps_are_the_same(case):
    X, y = data(load_breast_cancer)
    theirs = CASES[case]().set_params(fit_intercept=False)
    theirs.partial_fit(X[:300], y[:300], classes=[0, 1])
    ours = from_sklearn(theirs)
    theirs.partial_fit(X[300:], y[300:])
    ours.partial_fit(X[300:], y[300:])
    assert np.allclose(ours.coef_, theirs.coef_, rtol=1e-9, atol=1e-12)


def test_pegasos_goes_on_with_their_trial():
    X, y = data(load_breast_cancer)
    theirs = sgd(alpha=0.01).fit(X, y)
    ours = from_sklearn(theirs)
    moved = np.linalg.norm(ours.partial_fit(X[:1], y[:1]).coef_ - theirs.coef_)
    assert (
        moved
        <= np.linalg.norm(X[0]) / (0.01 * theirs.t_) + np.linalg.norm(theirs.coef_) / theirs.t_
    )


def test_parameters_names_and_files(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    theirs = perceptron(max_iter=7, class_weight={0: 2.0}).fit(X, y)
    ours = from_sklearn(theirs)
    assert ours.get_params().items() >= {"max_iter": 7, "class_weight": {0: 2.0}}.items()
    assert ours.feature_names_in_.tolist() == list(X.columns)
    save(ours, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    for clf in (ours, again):
        clf.partial_fit(X, y)
    assert np.array_equal(ours.coef_, again.coef_)
    assert ours.predict_one(dict(zip(X.columns, X.iloc[0], strict=True))) == ours.predict(X[:1])[0]


def test_refusals():
    X, y = data(load_iris)
    cases = [
        (linear_model.RidgeClassifier().fit(X, y), TypeError, "got RidgeClassifier"),
        (perceptron(), NotFittedError, "not fitted"),
        (perceptron(penalty="l2").fit(X, y), ValueError, "penalty='l2'"),
        (sgd(average=True).fit(X, y), ValueError, "averaged weights"),
        (sgd(loss="log_loss").fit(X, y), ValueError, "loss='log_loss'"),
        (sgd(penalty="l1").fit(X, y), ValueError, "penalty='l1'"),
        (sgd(learning_rate="adaptive", eta0=0.1).fit(X, y), ValueError, "learning_rate='adaptive'"),
        (sgd().fit(X, y).sparsify(), ValueError, r"call densify\(\) first"),
    ]
    for clf, error, message in cases:
        with pytest.raises(error, match=message):
            from_sklearn(clf)


def test_a_table_has_names():
    X, y = load_iris(return_X_y=True, as_frame=True)
    ours = from_sklearn(sgd().fit(X, y))
    with pytest.raises(ValueError, match="feature names"):
        ours.predict(pd.DataFrame(X.to_numpy(), columns=list("abcd")))
