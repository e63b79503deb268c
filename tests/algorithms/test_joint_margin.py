"""`MaxMargin(multiclass="joint")` against Newton's method on all constraint vectors."""

import pickle
import warnings

import numpy as np
import pytest
from reference_joint_margin import joint_dual, joint_objective, joint_optimum
from reference_multiclass import max_joint_margin
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import AMIRA, MaxMargin
from maxmargin.distributed import Held, fit
from maxmargin.solvers import joint_pairs, joint_spaces, regularization_path
from maxmargin.solvers.newton import silent, solve

GAMMA = 0.3


def joint(**parameters):
    return MaxMargin(multiclass="joint", **parameters)


def drawn(seed, rows=24, features=4, classes=3, apart=1.0):
    """Rows about a center of each class, their labels and weights."""
    random = np.random.default_rng(seed)
    y = np.arange(rows) % classes
    X = random.normal(size=(rows, features)) + apart * random.normal(size=(classes, features))[y]
    return X, y, random.uniform(0.5, 2.0, rows)


def gaussian(X):
    return np.exp(-GAMMA * ((X[:, None] - X[None]) ** 2).sum(axis=2))


def centered(outputs):
    """Less their mean: a number that is added to all intercepts changes nothing."""
    return outputs - outputs.mean(axis=1, keepdims=True)


@pytest.fixture(params=["direct", "pairs", "gradients"])
def system(request, monkeypatch):
    """How steps are found; the number of features that goes with it."""
    if request.param == "gradients":
        monkeypatch.setattr(joint_spaces, "MOST_DIRECT", 0)
        monkeypatch.setattr(joint_pairs, "MOST_PAIRS", 0)
    return {"direct": 4, "pairs": 30, "gradients": 4}[request.param]


# ------------------------------------------------------------------------------------ the optimum
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", [3.0, 0.1])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, np.float32])
def test_the_optimum_is_that_of_the_reference(kind, penalty, intercept, system):
    X, y, s = drawn(0, features=system)
    X = X.astype(np.float32).astype(float)
    best = joint_optimum(X, y, 3, penalty, s, intercept)
    clf = joint(soft_margin=penalty, tol=1e-7, fit_intercept=intercept).fit(kind(X), y, s)
    assert clf.converged_
    value = joint_objective(clf.coef_, clf.intercept_, X, y, penalty, s)
    assert value == pytest.approx(best.value, rel=1e-6)
    certificate = clf.certificate_
    assert certificate.margin <= 1.0 / np.sqrt(2.0 * value)
    assert certificate.margin == pytest.approx(1.0 / np.sqrt(2.0 * value), rel=1e-9)
    assert certificate.bound >= 1.0 / np.sqrt(2.0 * best.value)
    np.testing.assert_allclose(clf.coef_, best.W, atol=2e-3)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", [3.0, 0.03])
def test_the_optimum_in_a_kernels_space(penalty, intercept, system):
    X, y, s = drawn(1)
    rows = np.linalg.cholesky(gaussian(X))
    best = joint_optimum(rows, y, 3, penalty, s, intercept)
    given = {"kernel": "rbf", "gamma": GAMMA, "soft_margin": penalty, "fit_intercept": intercept}
    clf = joint(tol=1e-7, **given).fit(X, y, s)
    assert clf.certificate_.margin <= 1.0 / np.sqrt(2.0 * best.value) <= clf.certificate_.bound
    assert clf.certificate_.ratio > 1.0 - 1e-7
    expected = centered(rows @ best.W.T + best.b)
    np.testing.assert_allclose(centered(clf.decision_function(X)), expected, atol=2e-3)


def test_coefficients_of_rows_are_a_point_of_the_dual():
    X, y, s = drawn(2)
    given = {"kernel": "rbf", "gamma": GAMMA, "soft_margin": 0.1, "tol": 1e-8}
    clf = joint(**given).fit(X, y, s)
    beta = np.zeros((y.size, 3))
    beta[clf.support_] = clf.dual_coef_.T
    np.testing.assert_allclose(beta.sum(axis=0), 0.0, atol=1e-12)
    pairs = np.where(np.eye(3, dtype=bool)[y], 0.0, -beta).clip(0.0)
    dual = joint_dual(pairs, gaussian(X), y, 0.1, s)
    assert clf.certificate_.margin == pytest.approx(1.0 / np.sqrt(2.0 * dual), rel=1e-8)


@pytest.mark.parametrize("seed", range(40))
def test_certificates_enclose_the_optimum_wherever_steps_end(seed):
    random = np.random.default_rng(seed)
    classes, intercept = int(random.integers(3, 6)), bool(random.integers(2))
    X, y, s = drawn(seed, 20, int(random.integers(1, 8)), classes, random.uniform(0.0, 3.0))
    X *= (scale := 10.0 ** random.uniform(-2, 2))
    penalty = scale**2 * 10.0 ** random.uniform(-3, 2)
    best = 1.0 / np.sqrt(2.0 * joint_optimum(X, y, classes, penalty, s, intercept).value)
    for steps in (1, 2, 100):
        clf = joint(soft_margin=penalty, fit_intercept=intercept, max_iter=steps, tol=1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            certificate = clf.fit(X, y, s).certificate_
        assert certificate.margin <= best * (1.0 + 1e-9)
        assert certificate.bound >= best * (1.0 - 1e-9)
    assert certificate.ratio > 1.0 - 1e-6


def test_two_classes_are_one_problem():
    X, y = load_wine(return_X_y=True)
    X, y = StandardScaler().fit_transform(X[y < 2]), y[y < 2]
    one, two = MaxMargin(soft_margin="auto").fit(X, y), joint(soft_margin="auto").fit(X, y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.certificate_ == two.certificate_
    # The definition for several classes has the same minimum, at half of the weights each.
    half = np.vstack([-one.coef_, one.coef_]) / 2.0
    best = joint_optimum(X, y, 2, one.soft_margin_)
    np.testing.assert_allclose(half, best.W, atol=1e-3)
    assert one.certificate_.margin == pytest.approx(0.5 / np.sqrt(best.value), rel=1e-3)


# ------------------------------------------------------------------- what AMIRA approaches
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_hard_margins_are_those_that_amira_approaches(kernel):
    X, y, _ = drawn(3, rows=30, features=3, apart=6.0)
    given = {"kernel": kernel, "fit_intercept": False, "tol": 1e-3}
    given |= {"gamma": GAMMA} if kernel == "rbf" else {}
    rows = X if kernel == "linear" else np.linalg.cholesky(gaussian(X))
    best, _ = max_joint_margin(rows, y, 3)
    exact = joint(soft_margin=0.0, **given).fit(X, y).certificate_
    assert exact.margin <= best * (1.0 + 1e-9)
    assert best <= exact.bound * (1.0 + 1e-9)
    assert exact.ratio >= 1.0 - 1e-3
    del given["tol"]
    near = AMIRA(epsilon=0.01, random_state=0, max_iter=3000, **given).fit(X, y).certificate_
    assert AMIRA.margin_fraction(0.01) * exact.margin <= near.margin <= exact.bound
    assert exact.margin <= near.bound


def test_soft_margins_of_amira_are_hard_ones_of_longer_rows_and_between_two_of_ours():
    X, y, _ = drawn(4, rows=18, apart=0.5)
    penalty, classes = 0.5, 3
    longer = np.hstack([X, np.sqrt(penalty) * np.eye(y.size)])
    best, _ = max_joint_margin(longer, y, classes)
    given = {"fit_intercept": False, "tol": 1e-4}
    exact = joint(soft_margin=0.0, kernel="precomputed", **given).fit(longer @ longer.T, y)
    assert exact.certificate_.margin == pytest.approx(best, rel=1e-3)
    near = AMIRA(soft_margin=penalty, epsilon=0.01, fit_intercept=False, random_state=0)
    near = near.fit(X, y).certificate_
    assert near.margin <= exact.certificate_.bound
    assert near.bound >= exact.certificate_.margin
    lower, upper = (
        joint(soft_margin=factor * penalty, **given).fit(X, y).certificate_
        for factor in (1.0, classes / 2.0)
    )
    assert lower.margin <= best <= upper.bound


# ------------------------------------------------------------------------------- leaving rows out
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("space", ["direct", "pairs", "rbf"])
@pytest.mark.parametrize("penalty", [5.0, 0.1])
def test_outputs_left_out_are_exact_where_no_other_row_changes(penalty, space, intercept):
    X, y, s = drawn(5, features=30 if space == "pairs" else 3)
    rows = np.linalg.cholesky(gaussian(X)) if space == "rbf" else X
    clf = joint(soft_margin=penalty, tol=1e-8, fit_intercept=intercept)
    if space == "rbf":
        clf.set_params(kernel="rbf", gamma=GAMMA)
    trainer = clf._new_trainer()
    posed = trainer._posed(trainer._problem(X, y, s))
    weights = solve(posed.data, posed.task, posed.number, silent).weights
    _, signed = regularization_path.outputs_left_out(posed, weights, silent)
    found = np.where(np.eye(3, dtype=bool)[y], signed.T, -signed.T)
    active = joint_optimum(rows, y, 3, penalty, s, intercept).coefs > 0.0
    exact = 0
    for i in range(y.size):
        rest = np.arange(y.size) != i
        best = joint_optimum(rows[rest], y[rest], 3, penalty, s[rest], intercept)
        if ((best.coefs > 0.0) == active[rest]).all():
            expected = centered((best.W @ rows[i] + best.b)[None])
            np.testing.assert_allclose(centered(found[i : i + 1]), expected, atol=1e-8)
            exact += 1
    assert exact >= 5


def test_auto_is_the_fit_with_its_lambda():
    X, y = load_iris(return_X_y=True)
    auto = joint(soft_margin="auto").fit(X, y)
    assert auto.path_.method == "leave-one-out"
    fixed = joint(soft_margin=auto.soft_margin_).fit(X, y)
    np.testing.assert_allclose(auto.coef_, fixed.coef_, rtol=1e-9)
    assert auto.path_.loo_error[auto.path_.best] < 0.05
    assert auto.path_.loo_loss[auto.path_.best] == np.nanmin(auto.path_.loo_loss)


def test_folds_take_the_place_of_leave_one_out(monkeypatch):
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    exact = joint().path(X, y, lambdas=[1.0, 100.0])
    monkeypatch.setattr(joint_spaces, "MOST_DIRECT", 0)
    folds = joint(soft_margin="auto", calibration="loo").fit(X, y)
    assert folds.path_.method == "5 folds"
    path = joint().path(X, y, lambdas=[1.0, 100.0])
    np.testing.assert_allclose(path.loo_loss, exact.loo_loss, atol=0.05)
    np.testing.assert_allclose(folds.predict_proba(X).sum(axis=1), 1.0)


def test_the_loss_of_a_path_does_not_depend_on_the_size_of_outputs():
    random = np.random.default_rng(6)
    own = np.eye(4, dtype=bool)[random.integers(0, 4, 50)].T
    outputs, weights = random.normal(size=(4, 50)) + own, random.uniform(0.5, 2.0, 50)
    share = 0.98
    loss, best = regularization_path.scaled_log_loss(outputs, own, weights, share)
    for factor in (1e-6, 7.0, 1e6):
        again, scaled_best = regularization_path.scaled_log_loss(
            factor * outputs, own, weights, share
        )
        assert again == pytest.approx(loss, rel=1e-9)
        assert factor * scaled_best == pytest.approx(best, rel=1e-4)
    targets = np.where(own, share, (1.0 - share) / 3.0)

    def scaled(t):
        logs = t * outputs - np.logaddexp.reduce(t * outputs, axis=0)
        return -np.average((targets * logs).sum(axis=0), weights=weights)

    assert loss == pytest.approx(scaled(best), rel=1e-9)
    assert loss == pytest.approx(min(map(scaled, np.linspace(0.0, 5.0, 5001))), rel=1e-6)
    # Outputs that say the opposite are worth nothing.
    turned, _ = regularization_path.scaled_log_loss(-outputs, own, weights, share)
    assert turned == pytest.approx(np.log(4.0), rel=1e-5)


def test_probabilities_are_the_softmax_of_scores():
    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    one, together = (
        MaxMargin(multiclass=multiclass, soft_margin="auto", calibration="loo").fit(X[::3], y[::3])
        for multiclass in ("ovr", "joint")
    )
    scores, chances = together.decision_function(X[1::3]), together.predict_proba(X[1::3])
    factors = np.diff(np.log(chances), axis=1) / np.diff(scores, axis=1)
    np.testing.assert_allclose(factors, factors[0, 0], rtol=1e-6)
    np.testing.assert_array_equal(chances.argmax(axis=1), together.predict(X[1::3]))
    np.testing.assert_allclose(np.exp(together.predict_log_proba(X[1::3])), chances, rtol=1e-9)
    assert log_loss(y[1::3], chances) < log_loss(y[1::3], one.predict_proba(X[1::3]))


def test_weights_of_classes_and_rows_count_as_copies():
    X, y, _ = drawn(7)
    twice = np.where(y == 1, 2, 1)
    rows = np.repeat(np.arange(y.size), twice)
    given = {"soft_margin": 1.0, "tol": 1e-8}
    by_class = joint(class_weight={0: 1.0, 1: 2.0, 2: 1.0}, **given).fit(X, y)
    by_rows, copies = joint(**given).fit(X, y, twice), joint(**given).fit(X[rows], y[rows])
    np.testing.assert_allclose(by_class.coef_, copies.coef_, atol=1e-4)
    np.testing.assert_array_equal(by_class.coef_, by_rows.coef_)


def test_digits_by_joint_classes_are_separated_better():
    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    one = MaxMargin(soft_margin="auto").fit(X[::2], y[::2])
    all_together = joint(soft_margin="auto").fit(X[::2], y[::2])
    assert all_together.score(X[1::2], y[1::2]) >= one.score(X[1::2], y[1::2]) - 0.005
    assert all_together.certificate_.ratio > 0.999
    assert all_together.certificate_.classes == ()


# ------------------------------------------------------------------------------ the estimator
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_files_and_copies(tmp_path, kernel):
    X, y = load_iris(return_X_y=True)
    clf = joint(kernel=kernel, soft_margin="auto", calibration="loo").fit(X, y)
    maxmargin.save(clf, tmp_path / "model")
    for other in (maxmargin.load(tmp_path / "model"), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(other.predict_proba(X), clf.predict_proba(X))
        assert other.certificate_.ratio == clf.certificate_.ratio
        assert other.path_.soft_margin == clf.soft_margin_


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "hinge"},
        {"loo": "exact"},
        {"loo": "certified"},
        {"device": "cuda"},
        {"n_landmarks": 100},
    ],
)
def test_what_joint_classes_do_not_have(parameters):
    ((name, value),) = parameters.items()
    kernel = {"kernel": "rbf"} if name == "n_landmarks" else {}
    with pytest.raises(ValueError, match=f"multiclass='joint' needs {name}=.*got {value!r}"):
        joint(**parameters, **kernel).fit(*load_iris(return_X_y=True))


def test_several_labels_a_row_are_separate_problems():
    X, y = load_iris(return_X_y=True)
    labels = np.column_stack([y == 0, y >= 1, y == 2]).astype(int)
    with pytest.raises(ValueError, match="MaxMargin needs multiclass='ovr'"):
        joint().fit(X, labels)


def test_shards_are_refused():
    shards = [Held(0, "rows", *load_iris(return_X_y=True))]
    with pytest.raises(ValueError, match="cannot learn from shards with multiclass='joint'"):
        fit(joint(soft_margin=1.0), shards)


def test_onnx_has_the_same_probabilities():
    runtime = pytest.importorskip("onnxruntime")
    X, y = load_iris(return_X_y=True)
    clf = joint(soft_margin="auto", calibration="loo").fit(X, y)
    session = runtime.InferenceSession(maxmargin.to_onnx(clf, dtype="float64").SerializeToString())
    found = session.run(["probabilities"], {session.get_inputs()[0].name: X})[0]
    np.testing.assert_allclose(found, clf.predict_proba(X), atol=1e-6)
