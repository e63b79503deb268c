"""`certify`: a sound certificate for linear classifiers from anywhere, on any data."""

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from problems import label, learners, overlapping_sets, separable, separable_sets, three_classes
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Perceptron as PerceptronOfSklearn
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from maxmargin import ROMMA, MaxMargin, Perceptron, certify

FORMS = [np.asarray, sparse.csr_matrix]

PEERS = [
    PerceptronOfSklearn(random_state=0),
    LinearSVC(loss="hinge", C=1e3, intercept_scaling=10.0, max_iter=1_000_000, random_state=0),
    SVC(kernel="linear", C=1e8),
    LogisticRegression(C=1e3, max_iter=10_000),
]
ONE_VS_REST_PEERS = [peer for peer in PEERS if not isinstance(peer, SVC)]
peers = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: type(peer).__name__)


def margin_of(clf, X, y, c=0):
    w, b = clf.coef_[c], np.atleast_1d(clf.intercept_)[c]
    return (y * (X @ w + b)).min() / np.linalg.norm(w)


def assert_sound(certificate, clf, X, y, intercept=True, c=0):
    best = reference.max_margin(X, y, intercept)[0]
    assert certificate.margin == pytest.approx(margin_of(clf, X, y, c), rel=1e-9, abs=1e-12)
    if not np.isnan(best):
        assert certificate.bound >= best
        assert certificate.ratio <= max(certificate.margin / best, 0.0)


@peers
@pytest.mark.parametrize("form", FORMS)
def test_other_libraries(peer, form):
    X, y = separable(n=40, d=4)
    clf = clone(peer).fit(X, y)
    certificate = certify(clf, form(X), y)
    assert_sound(certificate, clf, X, y)
    best = reference.max_margin(X, y, True)[0]
    assert certificate.bound <= 1.02 * best


def test_a_support_vector_machine_is_nearly_the_best():
    X, y = separable(n=40, d=4)
    assert certify(SVC(kernel="linear", C=1e8).fit(X, y), X, y).ratio > 0.98


def test_a_classifier_that_was_fitted_on_sparse_rows():
    """scikit-learn's SVC then keeps its weights sparse, too."""
    X, y = separable(n=40, d=4)
    dense, of_sparse = (SVC(kernel="linear", C=1e3).fit(form(X), y) for form in FORMS)
    expected = certify(dense, X, y)
    assert certify(of_sparse, X, y).margin == pytest.approx(expected.margin, rel=1e-3)


@pytest.mark.parametrize("learner", learners(), ids=label)
@pytest.mark.parametrize("intercept", [True, False])
def test_our_own_learners(learner, intercept):
    X, y = separable(n=40, d=4, shift=1.0 if intercept else 0.0)
    clf = clone(learner).set_params(fit_intercept=intercept, random_state=0, max_iter=50).fit(X, y)
    certificate = certify(clf, X, y)
    assert_sound(certificate, clf, X, y, intercept)
    assert certificate.margin == pytest.approx(clf.certificate_.margin, rel=1e-9, abs=1e-12)


def test_the_effort_decides_how_close_the_bound_is():
    X, y = separable(n=40, d=4)
    clf, best = Perceptron(random_state=0).fit(X, y), reference.max_margin(X, y, True)[0]
    hasty, short, careful = (
        certify(clf, X, y, tol=0.5, max_iter=1),
        certify(clf, X, y, tol=0.5),
        certify(clf, X, y, tol=0.05),
    )
    assert hasty.bound > short.bound > careful.bound >= best
    assert hasty.margin == short.margin == careful.margin


@pytest.mark.parametrize("seed", [0, 30, 105])
def test_the_bound_is_as_close_as_tol_says(seed):
    X, y = separable(n=6, d=2, gap=0.5, shift=1.0, seed=seed)
    clf = Perceptron(random_state=0).fit(X, y)
    certificate = certify(clf, X, y, tol=0.01, max_iter=10_000)
    assert certificate.bound <= 1.01 * reference.max_margin(X, y, True)[0]


@settings(deadline=None, max_examples=50)
@given(data=separable_sets(max_rows=15) | overlapping_sets(max_rows=15))
def test_sound_on_data_that_the_classifier_never_saw(data):
    X, y = data
    d = X.shape[1]
    elsewhere, labels = separable(n=20, d=d, seed=1)
    for clf in (ROMMA(random_state=0), SVC(kernel="linear"), LogisticRegression()):
        clf.fit(elsewhere, labels)
        assert_sound(certify(clf, X, y, max_iter=20), clf, X, y)


def test_without_an_intercept_the_bound_is_about_hyperplanes_through_the_origin():
    X, y = separable(n=40, d=4, shift=0.0)
    through = reference.max_margin(X, y, False)[0]
    clf = LinearSVC(fit_intercept=False, C=1e3, max_iter=100_000, random_state=0).fit(X, y)
    certificate = certify(clf, X, y)
    assert_sound(certificate, clf, X, y, intercept=False)
    assert through <= certificate.bound <= 1.02 * through
    # An intercept put there by hand makes it a classifier with an intercept.
    clf.intercept_ = np.array([0.01])
    assert certify(clf, X, y).bound >= reference.max_margin(X, y, True)[0]


@pytest.mark.parametrize(
    "peer", [*ONE_VS_REST_PEERS, ROMMA(random_state=0)], ids=lambda peer: type(peer).__name__
)
def test_several_classes(peer):
    X, y = three_classes(n=45, d=3)
    clf = clone(peer).fit(X, y)
    certificate = certify(clf, X, y)
    assert len(certificate.classes) == 3
    for c, one in enumerate(certificate.classes):
        assert_sound(one, clf, X, np.where(y == c, 1, -1), c=c)
    assert certificate.ratio == min(one.ratio for one in certificate.classes)


def test_the_memory_layout_of_the_weights_does_not_matter():
    X, y = three_classes(n=45, d=3)
    clf = LinearSVC(random_state=0).fit(X, y)
    clf.coef_ = np.ascontiguousarray(clf.coef_)
    expected = certify(clf, X, y)
    clf.coef_ = np.asfortranarray(clf.coef_)
    assert certify(clf, X, y) == expected


def test_labels_may_be_text():
    X, y = separable(n=40, d=4)
    names = np.where(y > 0, "yes", "no")
    clf = Perceptron(random_state=0).fit(X, names)
    assert certify(clf, X, names) == certify(Perceptron(random_state=0).fit(X, y), X, y)


@pytest.mark.parametrize("clf", [MaxMargin(soft_margin=1.0), LinearSVC(random_state=0)], ids=str)
def test_a_pipeline_is_certified_in_the_space_of_its_last_step(clf):
    X, y = separable(n=60, d=4)
    X = X * [1.0, 10.0, 100.0, 1000.0]
    pipeline = make_pipeline(StandardScaler(), MaxAbsScaler(), clf).fit(X, y)
    assert str(certify(pipeline, X, y)) == str(certify(clf, pipeline[:-1].transform(X), y))
    assert str(certify(pipeline, X, y)) != str(certify(clone(clf).fit(X, y), X, y))
    alone = make_pipeline(clone(clf)).fit(X, y)
    assert str(certify(alone, X, y)) == str(certify(alone[-1], X, y))
    with pytest.raises(NotFittedError):
        certify(clone(pipeline), X, y)
    with pytest.raises(TypeError, match="with coef_, got KNeighborsClassifier"):
        certify(make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(X, y), X, y)


def test_the_classifier_is_left_as_it_was():
    X, y = separable(n=40, d=4)
    clf = Perceptron(random_state=0).fit(X, y)
    coef, certificate = clf.coef_.copy(), clf.certificate_
    certify(clf, X[:20], y[:20])
    np.testing.assert_array_equal(clf.coef_, coef)
    assert clf.certificate_ == certificate


# ----------------------------------------------------------------- the objective of an SVM
def objective(clf, X, y, weights, penalty, loss, c=0):
    """In extended precision; y of -1 and 1."""
    coef = clf.coef_.toarray() if sparse.issparse(clf.coef_) else clf.coef_
    w, b = coef[c].astype(np.longdouble), np.longdouble(np.atleast_1d(clf.intercept_)[c])
    slack = np.maximum(0, 1 - y * (X @ w + b))
    slack = slack if loss == "hinge" else slack**2
    return w @ w / 2 + weights @ slack / (2 * np.longdouble(penalty))


def as_margin(value, loss):
    return 1 / (2 * value) if loss == "hinge" else 1 / np.sqrt(2 * value)


MACHINES = [
    LinearSVC(loss="hinge", C=0.5, random_state=0, max_iter=10_000),
    LinearSVC(C=0.5, random_state=0),
    LinearSVC(C=0.5, random_state=0, fit_intercept=False),
    SVC(kernel="linear", C=0.5),
    SVC(kernel="linear", C=0.5, class_weight={-1: 3.0}),
    MaxMargin(soft_margin=1.0, loss="hinge"),
]


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_the_objective_of_a_support_vector_machine(machine, form):
    X, y = separable(n=60, d=4)
    y[::7] *= -1
    weights = 1.0 + np.arange(60) % 3
    clf = clone(machine).fit(form(X), y, sample_weight=weights)
    loss = (
        "squared_hinge" if isinstance(machine, LinearSVC) and machine.loss != "hinge" else "hinge"
    )
    found = certify(clf, form(X), y, loss=loss, sample_weight=weights, tol=1e-5)
    if getattr(machine, "class_weight", None):
        weights = weights * np.where(y < 0, 3.0, 1.0)
    value = objective(clf, X, y, weights, 1.0, loss)
    assert found.margin <= as_margin(value, loss) <= (1 + 1e-9) * found.margin
    intercept = getattr(machine, "fit_intercept", True)
    best = MaxMargin(soft_margin=1.0, loss=loss, tol=1e-8, max_iter=1000, fit_intercept=intercept)
    best.fit(X, y, sample_weight=weights)
    lowest = objective(best, X, y, weights, 1.0, loss)
    assert as_margin(lowest, loss) <= found.bound <= (1 + 1e-4) * as_margin(lowest, loss)
    assert 0.9 < found.ratio <= 1.0
    if isinstance(machine, SVC):
        assert found.ratio > 0.999


def test_the_objective_of_several_classes():
    X, y = three_classes(n=45, d=3)
    y[::5] = (y[::5] + 1) % 3
    clf = LinearSVC(loss="hinge", random_state=0, max_iter=100_000).fit(X, y)
    found = certify(clf, X, y, loss="hinge", tol=1e-4)
    for c, one in enumerate(found.classes):
        value = objective(clf, X, np.where(y == c, 1, -1), np.ones(45), 0.5, "hinge", c)
        assert one.margin == pytest.approx(float(as_margin(value, "hinge")), rel=1e-9)
        assert one.bound >= one.margin
    assert found.ratio == min(one.ratio for one in found.classes) > 0.5


@settings(deadline=None, max_examples=30)
@given(data=separable_sets(max_rows=15) | overlapping_sets(max_rows=15))
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_objectives_are_sound_for_weights_from_elsewhere(data, loss):
    X, y = data
    elsewhere, labels = separable(n=20, d=X.shape[1], seed=1)
    clf = LogisticRegression().fit(elsewhere, labels)
    found = certify(clf, X, y, loss=loss, soft_margin=0.3)
    ones = np.ones(y.size)
    assert found.margin <= as_margin(objective(clf, X, y, ones, 0.3, loss), loss)
    svc = SVC(kernel="linear", C=0.5 / 0.3, tol=1e-6).fit(X, y)
    assert found.bound >= as_margin(objective(svc, X, y, ones, 0.3, loss), loss)


def test_a_lambda_that_is_not_known():
    X, y = separable()
    clf = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match="loss needs soft_margin, which LogisticRegression"):
        certify(clf, X, y, loss="hinge")
    with pytest.raises(ValueError, match="soft_margin must be a number above 0, got 0"):
        certify(clf, X, y, loss="hinge", soft_margin=0)
    with pytest.raises(ValueError, match="loss must be 'hinge'"):
        certify(clf, X, y, loss="log_loss")
    with pytest.raises(ValueError, match="soft_margin has a meaning with loss"):
        certify(clf, X, y, soft_margin=1.0)


# --------------------------------------------------------------------------------------- errors
@pytest.fixture
def fitted():
    X, y = separable(n=40, d=4)
    return Perceptron(random_state=0).fit(X, y), X, y


def test_a_class_that_is_missing(fitted):
    clf, X, y = fitted
    with pytest.raises(ValueError, match=r"y lacks the classes \[-1\]"):
        certify(clf, X[y > 0], y[y > 0])


def test_a_class_that_is_unknown(fitted):
    clf, X, y = fitted
    with pytest.raises(ValueError, match=r"not among the classes \[-1, 1\]"):
        certify(clf, X, np.where(y > 0, 1, 7))


def test_another_number_of_features(fitted):
    clf, X, y = fitted
    with pytest.raises(ValueError, match="X has 3 features, but the classifier has 4"):
        certify(clf, X[:, :3], y)


def test_another_number_of_labels(fitted):
    clf, X, y = fitted
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[40, 39\]"):
        certify(clf, X, y[:-1])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_numbers(fitted, value):
    clf, X, y = fitted
    X[3, 2] = value
    with pytest.raises(ValueError, match=r"Input X contains .* \(row 3, column 2\)"):
        certify(clf, X, y)


def test_not_fitted():
    X, y = separable()
    for clf in (Perceptron(), LinearSVC()):
        with pytest.raises(NotFittedError):
            certify(clf, X, y)


@pytest.mark.parametrize(
    "clf",
    [SVC(kernel="rbf"), KNeighborsClassifier(), DecisionTreeClassifier(random_state=0)],
    ids=lambda clf: type(clf).__name__,
)
def test_not_linear(clf):
    X, y = separable()
    with pytest.raises(TypeError, match="certify needs a linear classifier with coef_"):
        certify(clf.fit(X, y), X, y)


@pytest.mark.parametrize("classes", [3, 4])
def test_one_vs_one(classes):
    """SVC has one weight vector per pair of classes; for three classes that is also three."""
    X, y = three_classes(n=60, d=3)
    y = np.where((y == 2) & (np.arange(60) % 2 == 0), classes - 1, y)
    with pytest.raises(TypeError, match="one-vs-rest"):
        certify(SVC(kernel="linear").fit(X, y), X, y)
