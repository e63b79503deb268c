"""Conversion of fitted scikit-learn classifiers to learners that continue from their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from maxmargin.algorithms.norma import NORMA
from maxmargin.algorithms.passiveaggressive import PassiveAggressive
from maxmargin.algorithms.pegasos import Pegasos
from maxmargin.algorithms.perceptron import Perceptron
from maxmargin.estimator import OnlineClassifier
from maxmargin.models.linear_model import LinearModel
from maxmargin.training.protocol import put_state, state_of

# Parameters that mean the same.
SAME = "fit_intercept", "max_iter", "shuffle", "random_state", "class_weight", "warm_start"


def from_sklearn(clf: ClassifierMixin) -> OnlineClassifier:
    """Convert a fitted scikit-learn linear classifier to a learner that continues from its weights.

    The learner predicts the same, and `partial_fit` continues with its own rule. Certificates refer
    to the rows learned from now on; `certify` certifies others.

    Parameters
    ----------
    clf : estimator
        A fitted `Perceptron`, `PassiveAggressiveClassifier` or `SGDClassifier`. The last one
        becomes `PassiveAggressive` with ``learning_rate="pa1"`` or ``"pa2"``, and with the hinge
        loss `Pegasos`, or `NORMA` if its rate is constant. Other losses and penalties, and averaged
        weights, are refused.

    Returns
    -------
    estimator

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import SGDClassifier
    >>> from maxmargin import from_sklearn
    >>> X, y = load_iris(return_X_y=True)
    >>> theirs = SGDClassifier(random_state=0).fit(X, y)
    >>> ours = from_sklearn(theirs)
    >>> bool((ours.predict(X) == theirs.predict(X)).all())
    True
    >>> ours.partial_fit(X, y).lambda_
    0.0001
    """
    found = [LEARNERS[kind] for kind in map(_name, type(clf).__mro__) if kind in LEARNERS]
    if not found:
        raise TypeError(
            f"from_sklearn takes a fitted {', '.join(LEARNERS)}; got {type(clf).__name__}."
        )
    check_is_fitted(clf)
    given: Any = clf
    if given.average:
        raise ValueError(
            "from_sklearn cannot continue from averaged weights: the weights that learn are not "
            "those that predict. Fit without average."
        )
    if sparse.issparse(given.coef_):
        raise ValueError("from_sklearn needs dense weights: call densify() first.")
    learner = found[0](given)
    learner.set_params(**{name: getattr(given, name) for name in SAME})
    classes, width = given.classes_, given.coef_.shape[1]
    # A row of weight 0 makes an untrained model for these classes and columns.
    nothing = np.zeros((1, width)), classes[:1]
    learner.partial_fit(*nothing, classes=classes, sample_weight=[0.0])
    state = state_of(learner)
    assert state is not None
    assert isinstance(state.model, LinearModel)
    names = getattr(given, "feature_names_in_", None)
    model = state.model.with_weights(given.coef_, given.intercept_, trials=int(given.t_) - 1)
    put_state(learner, state._replace(model=model, features=state.features._replace(names=names)))
    return learner


def _name(kind: type) -> str:
    """The name of a class of scikit-learn; some versions do not have all of them."""
    return kind.__name__ if kind.__module__.startswith("sklearn.") else ""


def _perceptron(clf: Any) -> OnlineClassifier:
    if clf.penalty is not None:
        raise _refused("penalty", clf.penalty, "Perceptron has none")
    return Perceptron(rate=clf.eta0)


def _passive_aggressive(clf: Any) -> OnlineClassifier:
    return PassiveAggressive(C=clf.C, loss=clf.loss)


def _sgd(clf: Any) -> OnlineClassifier:
    rate, loss = clf.learning_rate, clf.loss
    if rate in ("pa1", "pa2"):
        return PassiveAggressive(C=clf.eta0, loss="hinge" if rate == "pa1" else "squared_hinge")
    if loss == "perceptron" and rate == "constant" and clf.penalty is None:
        return Perceptron(rate=clf.eta0)
    if loss != "hinge":
        raise _refused("loss", loss, "learners here have the hinge loss, or none")
    if clf.penalty != "l2":
        raise _refused("penalty", clf.penalty, "Pegasos and NORMA have 'l2'")
    if rate == "constant":
        return NORMA(rate=clf.eta0, decay=clf.alpha)
    if rate == "optimal":
        return Pegasos(lambda_=clf.alpha)
    raise _refused("learning_rate", rate, "there is 'optimal', 'constant', 'pa1' and 'pa2'")


def _refused(name: str, value: Any, why: str) -> ValueError:
    return ValueError(f"from_sklearn cannot continue with {name}={value!r}: {why}.")


LEARNERS: dict[str, Callable[[Any], OnlineClassifier]] = {
    "Perceptron": _perceptron,
    "PassiveAggressiveClassifier": _passive_aggressive,
    "SGDClassifier": _sgd,
}
