"""Kernels that violate Mercer's condition: certificates claim nothing that numbers contradict."""

import numpy as np
import pytest
from campaigns.indefinite_kernels import check_number
from extent import everything_or

from maxmargin import AMIRA, BisectionPerceptron, Forgetron, PassiveAggressive

# Few loops to compile.
FEW = ("PassiveAggressive", "Forgetron")
KERNELS = everything_or(50, 150)


@pytest.mark.slow
def test_no_ratio_is_above_1():
    learned = 0
    for number in range(KERNELS):
        finding, refusal = check_number(number, seed=0, names=FEW)
        assert not finding, number
        learned += not refusal
    assert learned > 0.4 * KERNELS


def gaps(some, others):
    return ((some[:, None] - others[None]) ** 2).sum(axis=2)


def test_a_margin_above_its_bound_proves_nothing():
    X, y = [[0.0], [1.0], [3.0]], [1, 1, -1]
    clf = PassiveAggressive(kernel=lambda some, others: 4 - gaps(some, others), max_iter=100)
    certificate = clf.set_params(random_state=0).fit(X, y).certificate_
    assert certificate.margin > 1.0
    assert certificate.bound == np.inf
    assert certificate.ratio == 0.0
    assert "nothing is proved" in str(certificate)


# The form of (1, -1), the weights that separate the two rows, is -2.
NEGATIVE = np.array([[1.0, 2.0], [2.0, 1.0]])


@pytest.mark.parametrize(
    "learner",
    [
        PassiveAggressive(kernel="precomputed", fit_intercept=False, max_iter=2),
        Forgetron(kernel="precomputed", fit_intercept=False, budget=5, max_iter=2),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_negative_squares_prove_nothing(learner):
    certificate = learner.set_params(shuffle=False).fit(NEGATIVE, [0, 1]).certificate_
    assert certificate.bound == np.inf
    assert not certificate.ratio > 0.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_ends_where_squares_are_negative():
    random = np.random.default_rng(0)
    for _ in range(20):
        matrix = random.normal(size=(6, 6))
        matrix = matrix + matrix.T
        np.fill_diagonal(matrix, np.abs(np.diagonal(matrix)))
        clf = BisectionPerceptron(kernel="precomputed", max_checks=100, random_state=0)
        clf.fit(matrix, [0, 1] * 3)
        assert not clf.certificate_.ratio > 1.0
        assert not (clf.converged_ and clf.certificate_.bound == np.inf)


def test_a_negative_coef0_is_noticed_and_others_lose_nothing():
    random = np.random.default_rng(0)
    X = random.normal(size=(20, 2))
    y = (X[:, 0] > 0).astype(int)
    given = {"kernel": "poly", "degree": 2, "gamma": 1.0, "random_state": 0}
    assert AMIRA(coef0=1.0, **given).fit(X, y).certificate_.bound < np.inf
    matrix = (X @ X.T + 1.0) ** 2
    exact = AMIRA(kernel="precomputed", random_state=0).fit(matrix, y).certificate_
    assert exact.bound == pytest.approx(AMIRA(coef0=1.0, **given).fit(X, y).certificate_.bound)
    # Rows of opposite directions, whose value of (1, 1) is negative.
    clf = AMIRA(coef0=-1.0, kernel="poly", degree=1, gamma=1.0, fit_intercept=False)
    with pytest.raises(ValueError, match="no kernel is negative there"):
        clf.fit([[0.5], [-2.0]], [0, 1])


def test_an_entry_that_is_not_symmetric_is_named():
    size = 1100  # of which a sample would hardly find it
    matrix = np.eye(size, dtype=np.float32)
    matrix[1030, 7] = 0.5
    clf = PassiveAggressive(kernel="precomputed", random_state=0)
    y = np.arange(size) % 2
    with pytest.raises(ValueError, match=r"X\[7, 1030\] is 0 and X\[1030, 7\] is 0.5"):
        clf.fit(matrix, y)
    matrix[7, 1030] = 0.5
    clf.fit(matrix, y)


def test_a_function_that_is_not_symmetric_is_refused():
    def function(some, others):
        return np.exp(-gaps(some, others)) + 0.1 * some[:, :1]

    with pytest.raises(ValueError, match="not symmetric: of two rows it is"):
        PassiveAggressive(kernel=function, random_state=0).fit([[0.0], [1.0]], [0, 1])
