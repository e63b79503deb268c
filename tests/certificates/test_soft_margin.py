"""The 2-norm soft margin: a private coordinate for every row, without storing the rows."""

from itertools import product

import numpy as np
import pytest
from extent import everything_or
from problems import label, overlapping, three_classes
from reference import max_margin
from reference_pnorm import soft
from scipy import sparse
from sklearn.base import clone
from sklearn.svm import LinearSVC

from maxmargin import (
    ALMA,
    AMIRA,
    MICRA,
    NORMA,
    PUMMA,
    ROMMA,
    DirectionalPerceptron,
    PassiveAggressive,
    Pegasos,
    Perceptron,
    Relaxation,
    TrackingALMA,
)
from maxmargin.training.protocol import state_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FORMS = {"dense": np.asarray, "CSR": sparse.csr_matrix}
LAMBDA = 0.7
LEARNERS = [
    ALMA(alpha=0.5),
    AMIRA(epsilon=0.3),
    AMIRA(epsilon=0.3, intercept="pair"),
    DirectionalPerceptron(beta=0.1),
    MICRA(),
    NORMA(rate=0.3, decay=0.1),
    PUMMA(delta=0.2),
    PassiveAggressive(C=0.5),
    Pegasos(lambda_=0.1),
    Perceptron(margin=0.5),
    Perceptron(average=True),
    ROMMA(delta=0.2),
    Relaxation(margin=0.5, target=1.0),
    TrackingALMA(rate=0.2, radius=0.8, margin=0.3),
]

# Sparse rows, and those of several classes, are compiled anew for each rule: one of each kind.
FEW = [AMIRA(epsilon=0.3), PUMMA(delta=0.2), Perceptron(average=True), ROMMA(delta=0.2)]
KINDS = everything_or(FEW, LEARNERS)
PROBLEMS = [(2, "dense", LEARNERS), (3, "dense", KINDS), (2, "CSR", KINDS), (3, "CSR", KINDS)]
every_problem = pytest.mark.parametrize(
    ("classes", "form", "learner"),
    [(classes, form, each) for classes, form, learners in PROBLEMS for each in learners],
    ids=label,
)

every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=label)
every_form = pytest.mark.parametrize("form", FORMS)
with_and_without_intercept = pytest.mark.parametrize("intercept", [False, True])


def in_pairs(learner):
    return isinstance(learner, PUMMA) or getattr(learner, "intercept", None) == "pair"


def problem(classes, n=40):
    return overlapping(n=n, d=4) if classes == 2 else three_classes(n=n, d=4)


def close(actual, expected, tolerance=1e-8):
    size = np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * size)


def each(certificate):
    return certificate.classes or (certificate,)


def assert_same_features(clf, explicit, width):
    assert clf.n_updates_ == explicit.n_updates_ > 0
    assert clf.n_mistakes_ == explicit.n_mistakes_
    close(clf.coef_, explicit.coef_[:, :width])
    np.testing.assert_allclose(clf.intercept_, explicit.intercept_, rtol=1e-8, atol=1e-8)


# ------------------------------------------------------------------------------------------- fit


@with_and_without_intercept
@every_problem
def test_fit_is_fit_on_longer_rows(learner, form, intercept, classes):
    X, y = problem(classes)
    settings = {"fit_intercept": intercept, "max_iter": 10, "shuffle": False}
    clf = clone(learner).set_params(soft_margin=LAMBDA, **settings).fit(FORMS[form](X), y)
    explicit = clone(learner).set_params(**settings).fit(FORMS[form](soft(X, LAMBDA)), y)
    assert_same_features(clf, explicit, X.shape[1])
    assert clf.converged_ == explicit.converged_
    for mine, other in zip(each(clf.certificate_), each(explicit.certificate_), strict=True):
        assert mine.margin == pytest.approx(other.margin, rel=1e-8, abs=1e-10)
        assert mine.bound == pytest.approx(other.bound, rel=1e-8)


@pytest.mark.parametrize("p", [3.0, 9.21])
@pytest.mark.parametrize(
    ("learner", "form"),
    [
        *product([PUMMA(delta=0.2), Perceptron(margin=0.5)], FORMS),
        *product([ALMA(alpha=0.5)], everything_or(["dense"], list(FORMS))),
    ],
    ids=label,
)
def test_fit_in_other_norms(learner, form, p):
    X, y = problem(2)
    settings = {"p": p, "max_iter": 10, "shuffle": False}
    clf = clone(learner).set_params(soft_margin=LAMBDA, **settings).fit(FORMS[form](X), y)
    explicit = clone(learner).set_params(**settings).fit(FORMS[form](soft(X, LAMBDA)), y)
    assert_same_features(clf, explicit, X.shape[1])
    assert clf.certificate_.margin == pytest.approx(explicit.certificate_.margin, rel=1e-8)
    assert clf.certificate_.bound == pytest.approx(explicit.certificate_.bound, rel=1e-8)


@every_learner
@with_and_without_intercept
def test_certificates_are_about_the_longer_rows(learner, intercept):
    X, y = problem(2)
    best, _, _ = max_margin(soft(X, LAMBDA), y, intercept)
    clf = clone(learner).set_params(
        soft_margin=LAMBDA, fit_intercept=intercept, max_iter=50, random_state=0
    )
    certificate = clf.fit(X, y).certificate_
    assert certificate.margin <= best * (1 + 1e-9)
    assert certificate.bound >= best


@pytest.mark.parametrize("learner", [PUMMA(delta=0.01), ROMMA(delta=0.01)], ids=label)
@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_the_optimum_is_that_of_the_squared_hinge_loss(learner, lam):
    X, y = overlapping(n=80, d=4)
    svm = LinearSVC(
        loss="squared_hinge",
        C=1 / (2 * lam),
        fit_intercept=False,
        tol=1e-10,
        max_iter=10**6,
        random_state=0,
    ).fit(X, y)
    w = svm.coef_[0]
    slacks = np.maximum(0.0, 1 - y * (X @ w))
    best = 1 / np.sqrt(w @ w + slacks @ slacks / lam)
    clf = clone(learner).set_params(
        soft_margin=lam, fit_intercept=False, max_iter=10**5, random_state=0
    )
    clf.fit(X, y)
    assert clf.converged_
    assert 0.99 * best <= clf.certificate_.margin <= best * (1 + 1e-7)
    assert best * (1 - 1e-7) <= clf.certificate_.bound <= best / 0.99 * (1 + 1e-7)
    # Within a distance that the margins prove: both have functional margin about 1.
    assert np.linalg.norm(clf.coef_[0] - w) <= np.sqrt(2 * 0.01) / best * 1.01


@every_form
def test_new_points_have_no_private_coordinate(form):
    X, y = problem(2)
    clf = PUMMA(soft_margin=LAMBDA, random_state=0).fit(FORMS[form](X), y)
    plain = X @ clf.coef_[0] + clf.intercept_[0]
    close(clf.decision_function(FORMS[form](X)), plain, 1e-12)
    assert np.min(y * plain) < 0.5  # the training rows themselves are not all at margin 0.9
    assert clf.certificate_.margin > 0.0


# --------------------------------------------------------------------------------------- streams


def stream(clf, X, y, size=7):
    for start in range(0, X.shape[0], size):
        part = slice(start, start + size)
        clf.partial_fit(X[part], y[part], classes=np.unique(y))
        yield start + size


@every_problem
@with_and_without_intercept
def test_in_a_stream_every_row_is_new(learner, form, intercept, classes):
    X, y = problem(classes)
    clf, explicit = (clone(learner).set_params(fit_intercept=intercept) for _ in range(2))
    clf.set_params(soft_margin=LAMBDA)
    longer = FORMS[form](soft(X, LAMBDA))
    calls = zip(stream(clf, FORMS[form](X), y), stream(explicit, longer, y), strict=True)
    for _ in calls:
        assert_same_features(clf, explicit, X.shape[1])
        for mine, other in zip(each(clf.certificate_), each(explicit.certificate_), strict=True):
            if in_pairs(learner):  # a private weight that has grown is bounded from above only
                assert mine.bound >= other.bound * (1 - 1e-8)
            else:
                assert mine.bound == pytest.approx(other.bound, rel=1e-8)
    assert state_of(clf).model.linear.weights.shape[1] == X.shape[1] + 1


@every_learner
@with_and_without_intercept
def test_certificates_of_streams_hold(learner, intercept):
    X, y = problem(2)
    best, _, _ = max_margin(soft(X, LAMBDA), y, intercept)
    clf = clone(learner).set_params(soft_margin=LAMBDA, fit_intercept=intercept)
    for _ in stream(clf, X, y):
        assert clf.certificate_.bound >= best


@pytest.mark.parametrize("learner", KINDS, ids=label)
@every_form
def test_fit_and_then_a_stream(learner, form):
    X, y = problem(2, n=60)
    rows = FORMS[form](X)
    clf = clone(learner).set_params(soft_margin=LAMBDA, max_iter=5, random_state=0)
    clf.fit(rows[:30], y[:30])
    coef, bound = clf.coef_, clf.certificate_.bound
    for done in stream(clf, rows[30:], y[30:]):
        seen = min(30 + done, 60)
        best, _, _ = max_margin(soft(X[:seen], LAMBDA), y[:seen], intercept=True)
        assert clf.certificate_.bound >= best
        assert state_of(clf).model.linear.weights.shape[1] == X.shape[1] + 1
    assert clf.certificate_.bound <= bound
    assert not np.array_equal(clf.coef_, coef)
    assert np.isfinite(clf.decision_function(rows)).all()


@pytest.mark.parametrize("learner", [PUMMA(delta=0.2), ROMMA(delta=0.2)], ids=label)
def test_fit_and_then_a_stream_is_one_run(learner):
    """The private weights of the present pair are carried over, those of other rows summed up."""
    X, y = problem(2, n=60)
    longer = soft(X, LAMBDA)
    clf, explicit = (clone(learner).set_params(max_iter=1, shuffle=False) for _ in range(2))
    clf.set_params(soft_margin=LAMBDA).fit(X[:30], y[:30])
    explicit.fit(longer[:30], y[:30])
    for i in range(30, 60):
        clf.partial_fit(X[i : i + 1], y[i : i + 1])
        explicit.partial_fit(longer[i : i + 1], y[i : i + 1])
        assert_same_features(clf, explicit, X.shape[1])
    w = np.append(explicit.coef_, explicit.intercept_ if not in_pairs(learner) else 0.0)
    assert state_of(clf).model.linear.scalars.table.norm2[0] == pytest.approx(w @ w, rel=1e-8)


@every_learner
def test_zero_is_no_soft_margin(learner):
    X, y = problem(2)
    clf = clone(learner).set_params(soft_margin=0.0, max_iter=3, random_state=0).fit(X, y)
    assert state_of(clf).model.linear.weights.shape[1] == X.shape[1] + 1


def test_warm_start_keeps_the_private_coordinates():
    X, y = problem(2)
    clf = ROMMA(delta=0.1, soft_margin=LAMBDA, warm_start=True, random_state=0).fit(X, y)
    assert clf.converged_
    updates = clf.n_updates_
    assert clf.fit(X, y).n_updates_ == updates
    with pytest.raises(ValueError, match="number of rows"):
        clf.fit(X[:-1], y[:-1])
