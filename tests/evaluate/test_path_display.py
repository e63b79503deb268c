"""The picture of a path over lambda."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import MaxMargin, Perceptron
from maxmargin.evaluate import PathDisplay

mpl.use("agg")


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    pyplot.close("all")


def test_error_and_loss_are_drawn():
    X, y = load_iris(return_X_y=True)
    display = PathDisplay.from_estimator(make_pipeline(StandardScaler(), MaxMargin()), X, y)
    path = MaxMargin().path(StandardScaler().fit_transform(X), y)
    error, loss = display.lines_
    np.testing.assert_array_equal(error.get_xdata(), path.lambdas)
    np.testing.assert_allclose(error.get_ydata(), 100.0 * path.loo_error)
    np.testing.assert_array_equal(loss.get_ydata(), path.loo_loss)
    assert f"soft_margin={path.soft_margin:.3g}" in display.ax_[0].get_title()
    assert display.figure_ is display.ax_[1].figure


def test_one_pair_of_axes_has_the_error():
    clf = MaxMargin(soft_margin="auto").fit(*load_iris(return_X_y=True))
    _, axes = pyplot.subplots()
    display = PathDisplay.from_path(clf.path_, ax=axes)
    assert display.ax_ is axes
    assert len(display.lines_) == 1
    with pytest.raises(ValueError, match="axes or a pair of them, got 3"):
        display.plot(pyplot.subplots(3)[1])


def test_other_learners_have_no_path():
    with pytest.raises(TypeError, match="PathDisplay needs MaxMargin, got Perceptron"):
        PathDisplay.from_estimator(Perceptron(), *load_iris(return_X_y=True))
