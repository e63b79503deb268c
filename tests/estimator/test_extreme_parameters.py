"""Coordinates behind the features are limited as rows are, and no fit ends with NaN."""

import numpy as np
import pytest

from maxmargin import PUMMA, DirectionalPerceptron, MaxMargin, PassiveAggressive, Perceptron
from maxmargin.models.kernel_model import KernelModel
from maxmargin.models.linear_model import LinearModel

X, Y = np.array([[0.0], [0.0], [1.0], [2.0]]), np.array([0, 1, 0, 1])


@pytest.mark.parametrize("method", ["fit", "partial_fit", "learn_one"])
@pytest.mark.parametrize(
    ("kind", "parameter", "value"),
    [
        (DirectionalPerceptron, "intercept_scaling", 1e-150),
        (Perceptron, "intercept_scaling", 1e150),
        (PassiveAggressive, "soft_margin", 1e-300),
        (PassiveAggressive, "soft_margin", 1e300),
        (PUMMA, "soft_margin", 1e300),
        (MaxMargin, "soft_margin", 1e-300),
        (MaxMargin, "soft_margin", 1e300),
    ],
)
def test_extreme_coordinates_are_refused(kind, parameter, value, method):
    if not hasattr(kind(), method):
        return
    given = {"random_state": 0} if "random_state" in kind().get_params() else {}
    clf = kind(**given, **{parameter: value})
    calls = {
        "fit": lambda: clf.fit(X, Y),
        "partial_fit": lambda: clf.partial_fit(X, Y, classes=[0, 1]),
        "learn_one": lambda: clf.learn_one(X[0], 0, classes=[0, 1]),
    }
    with pytest.raises(ValueError, match=rf"'{parameter}' parameter .* in the range \[1e-\d+, 1e"):
        calls[method]()
    assert not hasattr(clf, "classes_")


@pytest.mark.parametrize("value", [1e-50, 1e50])
@pytest.mark.parametrize("soft_margin", [0, 1e-100, 1e100])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_limits_themselves_are_fine(value, soft_margin):
    clf = PassiveAggressive(intercept_scaling=value, soft_margin=soft_margin, random_state=0)
    clf.set_params(max_iter=10).fit(X, Y)
    assert np.isfinite(clf.coef_).all()
    assert np.isfinite(clf.intercept_).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_weights_that_are_nan_are_noticed_at_the_end(monkeypatch, kernel, method):
    """Whatever makes them so, and although norms that are summed up along the way are finite."""
    model = LinearModel if kernel == "linear" else KernelModel
    learn_from = model.learn_from

    def spoilt(self, *given):
        learn_from(self, *given)
        known = (
            self.linear.weights if kernel == "linear" else (self.training or self.supports).coefs
        )
        known[0, 0] = np.nan
        if kernel == "rbf" and self.training is not None and self.training.block is not None:
            self.training.block.weights[0, 0] = np.nan

    clf = PassiveAggressive(kernel=kernel, gamma=1.0, max_iter=1, random_state=0).fit(X, Y)
    before = clf.decision_function(X)
    monkeypatch.setattr(model, "learn_from", spoilt)
    with pytest.raises(ValueError, match="diverged: its weights are not finite"):
        getattr(clf, method)(X, Y)
    assert clf.decision_function(X).tolist() == before.tolist()
