import numpy as np
import pytest
from common.estimators import every_estimator, every_hyperplane, every_linear_hyperplane
from problems import label, overlapping, three_classes
from scipy import sparse
from sklearn.base import clone

from maxmargin import MaxMargin, Perceptron


def blank(Estimator, classes):
    """A learner that has seen one zero row only, and so has all weights 0."""
    learner = Estimator(fit_intercept=False)
    return learner.partial_fit(np.zeros((1, 2)), classes[:1], classes=classes)


@every_linear_hyperplane
@pytest.mark.parametrize(
    ("classes", "winner"), [(["left", "right"], "right"), (["a", "b", "c"], "a")]
)
def test_ties(Estimator, classes, winner):
    """A score of 0 is positive; of several classes with the largest score the first one wins."""
    learner = blank(Estimator, classes)
    np.testing.assert_array_equal(learner.coef_, 0.0)
    assert learner.predict([[1.0, 2.0], [-3.0, 0.0]]).tolist() == [winner] * 2


@every_linear_hyperplane
def test_zero_row_is_a_mistake_and_no_update(Estimator):
    learner = blank(Estimator, [0, 1])
    assert learner.n_mistakes_ == 1
    assert learner.n_updates_ == 0


@every_linear_hyperplane
@pytest.mark.parametrize("labels", [[5, 9], ["no", "yes"], [False, True]])
def test_two_classes(Estimator, labels):
    X, y = overlapping(n=30)
    names = np.where(y > 0, labels[1], labels[0])
    learner = Estimator(max_iter=2, random_state=0).fit(X, names)
    scores = learner.decision_function(X)
    assert learner.classes_.tolist() == labels
    assert learner.coef_.shape == (1, 5)
    assert learner.intercept_.shape == (1,)
    assert scores.shape == (30,)
    np.testing.assert_allclose(scores, X @ learner.coef_[0] + learner.intercept_[0], rtol=1e-9)
    assert learner.predict(X).tolist() == np.where(scores >= 0, labels[1], labels[0]).tolist()


@every_linear_hyperplane
def test_three_classes(Estimator):
    X, y = three_classes(n=30)
    names = np.array(["red", "green", "blue"])
    learner = Estimator(max_iter=2, random_state=0).fit(X, names[y])
    scores = learner.decision_function(X)
    assert learner.classes_.tolist() == ["blue", "green", "red"]
    assert learner.coef_.shape == (3, 5)
    assert learner.intercept_.shape == (3,)
    assert scores.shape == (30, 3)
    np.testing.assert_allclose(scores, X @ learner.coef_.T + learner.intercept_, rtol=1e-9)
    assert learner.predict(X).tolist() == learner.classes_[scores.argmax(axis=1)].tolist()


@every_hyperplane
def test_no_intercept(Estimator):
    X, y = overlapping(n=30)
    learner = Estimator(max_iter=2, random_state=0, fit_intercept=False).fit(X, y)
    assert learner.intercept_.tolist() == [0.0]


@every_estimator
def test_sparse_rows(Estimator):
    X, y = three_classes(n=30)
    learner = Estimator(max_iter=2, random_state=0).fit(X, y)
    np.testing.assert_allclose(
        learner.decision_function(sparse.csr_matrix(X)), learner.decision_function(X), rtol=1e-9
    )


@pytest.mark.parametrize("learner", [MaxMargin(), Perceptron(random_state=0)], ids=label)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "poly"])
def test_duplicate_entries_of_sparse_rows_add_up(learner, kernel):
    rows = sparse.csr_matrix([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    clf = clone(learner).set_params(kernel=kernel, gamma=1.0).fit(rows, [0, 1, 1, 0])
    twice = sparse.csr_matrix(([0.5, 0.5], [0, 0], [0, 2]), shape=(1, 2))
    np.testing.assert_array_equal(
        clf.decision_function(twice), clf.decision_function(sparse.csr_matrix([[1.0, 0.0]]))
    )
    assert twice.nnz == 2  # the user's matrix stays as it is


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_too_large_for_a_kernel_are_not_predicted():
    X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0], [0.5, 0.2]])
    clf = MaxMargin(kernel="poly").fit(X, [0, 1, 1, 0])
    with pytest.raises(ValueError, match="X has values too large to compute with"):
        clf.predict(1e110 * X)
