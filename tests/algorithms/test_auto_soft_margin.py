"""`MaxMargin(soft_margin="auto")`, its path, and probabilities by leave-one-out."""

import copy
import pickle

import numpy as np
import pytest
from reference_leave_one_out import drawn, refitted
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import MaxMargin
from maxmargin.algorithms import maxmargin as module
from maxmargin.distributed import Held, fit
from maxmargin.persistence.model_tree import Misfit


# --------------------------------------------------------------------------------------- the choice
@pytest.mark.parametrize("rows", ["dense", "sparse"])
def test_auto_is_the_fit_with_its_lambda(rows):
    X, y = load_breast_cancer(return_X_y=True)
    X = sparse.csr_matrix(X) if rows == "sparse" else X
    auto = MaxMargin(soft_margin="auto").fit(X, y)
    fixed = MaxMargin(soft_margin=auto.soft_margin_).fit(X, y)
    np.testing.assert_array_equal(auto.coef_, fixed.coef_)
    np.testing.assert_array_equal(auto.intercept_, fixed.intercept_)
    assert auto.certificate_.ratio == fixed.certificate_.ratio >= 0.999
    assert fixed.soft_margin_ == auto.soft_margin_ == auto.path_.soft_margin


@pytest.mark.parametrize("classes", [2, 3])
def test_the_path_of_auto_is_a_part_of_the_whole(classes):
    X, y = load_iris(return_X_y=True)
    y = y if classes == 3 else y == 2
    auto, whole = MaxMargin(soft_margin="auto", tol=1e-6).fit(X, y), MaxMargin(tol=1e-6).path(X, y)
    assert auto.path_.lambdas.size <= 7 < whole.lambdas.size == 13
    there = np.isin(whole.lambdas, auto.path_.lambdas)
    np.testing.assert_array_equal(auto.path_.lambdas, whole.lambdas[there])
    for name in ("loo_error", "loo_loss", "margins", "bounds"):
        wanted = getattr(whole, name)[there]
        np.testing.assert_allclose(getattr(auto.path_, name), wanted, rtol=1e-4, err_msg=name)
    if classes == 2:  # losses of several classes may have more than one minimum
        assert auto.path_.soft_margin == whole.soft_margin
    assert auto.path_.loo_loss.min() < 1.05 * whole.loo_loss.min()
    assert (whole.ratio >= 0.999).all()


def test_of_equal_lambdas_the_largest_is_taken():
    path = MaxMargin().path(*load_iris(return_X_y=True))
    ties = path._replace(loo_loss=np.where(path.lambdas < 2.0, 0.5, 0.7))
    assert ties.soft_margin == path.lambdas[path.lambdas < 2.0].max()
    unknown = path._replace(loo_loss=np.append(np.full(12, np.nan), 3.0))
    assert unknown.best == 12


def test_many_useless_features_need_a_larger_lambda():
    scores, chosen = [], []
    for seed in range(10):
        random = np.random.default_rng(seed)
        X = random.normal(size=(1100, 60))
        y = X[:, :10].sum(axis=1) + 3.0 * random.normal(size=1100) > 0.0
        learners = [MaxMargin(soft_margin=each).fit(X[:100], y[:100]) for each in ("auto", 0.1)]
        scores.append([clf.score(X[100:], y[100:]) for clf in learners])
        chosen.append(learners[0].soft_margin_)
    auto, small = np.mean(scores, axis=0)
    assert auto > small + 0.02
    assert np.median(chosen) >= 10.0


def test_leave_one_out_error_tells_the_test_error():
    random = np.random.default_rng(1)
    X = random.normal(size=(5300, 40))
    y = X[:, :5].sum(axis=1) + 2.0 * random.normal(size=5300) > 0.0
    path = MaxMargin().path(X[:300], y[:300], lambdas=[1.0, 100.0], return_weights=True)
    outputs = X[300:] @ path.coefs[:, 0].T + path.intercepts[:, 0]
    errors = ((outputs > 0.0) != y[300:, None]).mean(axis=0)
    fitted = ((X[:300] @ path.coefs[:, 0].T + path.intercepts[:, 0] > 0.0) != y[:300, None]).mean(
        axis=0
    )
    # A standard error of 300 rows is 0.026.
    np.testing.assert_allclose(path.loo_error, errors, atol=0.06)
    assert (fitted < path.loo_error).all()


@pytest.mark.parametrize("multiple", [1e-6, 0.01, 100.0, 1e4])
def test_the_grid_is_extended_for_weights_of_any_size(multiple):
    X, y = load_iris(return_X_y=True)
    one = MaxMargin(soft_margin="auto").fit(X, y)
    weights = np.full(y.size, multiple)
    other = MaxMargin(soft_margin="auto").fit(X, y, sample_weight=weights)
    assert other.soft_margin_ == pytest.approx(multiple * one.soft_margin_)
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-6)
    assert (np.diff(other.path_.lambdas) > 0.0).all()


def test_class_weights_count_in_the_choice():
    X, y = load_iris(return_X_y=True)
    by_class = MaxMargin(class_weight={0: 1.0, 1: 5.0, 2: 1.0}).path(X, y)
    by_row = MaxMargin().path(X, y, sample_weight=np.where(y == 1, 5.0, 1.0))
    np.testing.assert_array_equal(by_class.loo_loss, by_row.loo_loss)
    np.testing.assert_array_equal(by_class.loo_error, by_row.loo_error)


def test_several_labels_have_one_lambda():
    X, y = load_iris(return_X_y=True)
    labels = np.column_stack([y == 0, y >= 1, X[:, 0] > 6.0]).astype(int)
    clf = MaxMargin(soft_margin="auto", calibration="loo").fit(X, labels)
    path, alone = clf.path_, [MaxMargin().path(X, column) for column in labels.T]
    k = np.isin(alone[0].lambdas, path.lambdas)
    np.testing.assert_allclose(path.loo_loss, sum(each.loo_loss[k] for each in alone), rtol=1e-6)
    np.testing.assert_allclose(
        path.loo_error, np.mean([each.loo_error[k] for each in alone], axis=0)
    )
    chances = clf.predict_proba(X)
    assert chances.shape == labels.shape
    one = MaxMargin(soft_margin=clf.soft_margin_, calibration="loo").fit(X, labels[:, 2])
    np.testing.assert_allclose(chances[:, 2], one.predict_proba(X)[:, 1], rtol=1e-6)


@pytest.mark.parametrize("rows", [40, 1600])
def test_wide_sparse_rows(rows):
    """Products of few rows, and folds of many."""
    random = np.random.default_rng(0)
    X = sparse.random(rows, 2000, 0.01, "csr", random_state=0)
    y = np.asarray(X[:, :200].sum(axis=1)).ravel() + 0.5 * random.normal(size=rows) > 1.0
    path = MaxMargin(tol=1e-2).path(X, y, lambdas=[0.1, 1.0, 10.0])
    assert path.method == ("leave-one-out" if rows == 40 else "5 folds")
    clf = MaxMargin(soft_margin=path.soft_margin, calibration="loo").fit(X, y)
    assert clf.predict_proba(X).shape == (rows, 2)
    assert path.loo_error.min() < min(y.mean(), 1.0 - y.mean()) + 0.1


def products(some, others):
    """The linear kernel, as a function of users."""
    return some @ others.T


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("labels", ["two", "three", "several"])
def test_a_linear_kernel_has_the_path_of_the_primal(labels, intercept):
    X, y = load_iris(return_X_y=True)
    X = X[:, 1:]
    y = {"two": y > 1, "three": y, "several": np.column_stack([y > 1, y < 1]).astype(int)}[labels]
    given = {"fit_intercept": intercept, "tol": 1e-8}
    weights = 1.0 + np.arange(len(y)) % 3
    primal = MaxMargin(**given).path(X, y, weights, return_weights=True)
    path = MaxMargin(kernel=products, **given).path(X, y, weights, return_weights=True)
    for name in ("lambdas", "loo_error", "loo_loss", "margins", "intercepts"):
        wanted = getattr(primal, name)
        np.testing.assert_allclose(getattr(path, name), wanted, rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(path.coefs @ X, primal.coefs, rtol=1e-4, atol=1e-5)
    assert path.method == primal.method == "leave-one-out"
    assert path.soft_margin == primal.soft_margin


def test_auto_with_a_kernel_is_the_fit_with_its_lambda():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    auto = MaxMargin(kernel="rbf", soft_margin="auto").fit(X, y)
    fixed = MaxMargin(kernel="rbf", soft_margin=auto.soft_margin_).fit(X, y)
    np.testing.assert_array_equal(auto.dual_coef_, fixed.dual_coef_)
    assert auto.certificate_ == fixed.certificate_
    assert auto.soft_margin_ == auto.path_.soft_margin < auto.path_.lambdas.max()
    assert (auto.path_.ratio >= 0.999).all()


def test_folds_of_many_rows_with_a_kernel(monkeypatch):
    X, y = load_iris(return_X_y=True)
    clf, lambdas = MaxMargin(kernel="rbf", gamma=0.5), [0.01, 0.1, 1.0]
    exact = clf.path(X, y, lambdas=lambdas)
    monkeypatch.setattr("maxmargin.kernels.products.Products.most_factorised", 10)
    path = clf.path(X, y, lambdas=lambdas)
    assert (exact.method, path.method) == ("leave-one-out", "5 folds")
    np.testing.assert_allclose(path.loo_error, exact.loo_error, atol=0.05)
    np.testing.assert_allclose(path.loo_loss, exact.loo_loss, rtol=0.4)


def test_ctrl_c_leaves_the_model(monkeypatch):
    X, y = load_iris(return_X_y=True)
    clf = MaxMargin(soft_margin="auto").fit(X, y)
    before, path = clf.coef_.copy(), clf.path_

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(2.0 * X, y)
    np.testing.assert_array_equal(clf.coef_, before)
    assert clf.path_ is path


# ----------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "hinge", "loo": "exact"}, "loo='exact' needs .*got loss='hinge'"),
        ({"soft_margin": "best"}, "'soft_margin' parameter of MaxMargin must be .*'auto'"),
        ({"calibration": "loo", "loss": "hinge"}, "calibration='loo' needs .*got loss='hinge'"),
        ({"calibration": "loo", "soft_margin": 0}, "and soft_margin > 0.*soft_margin=0"),
        ({"calibration": "online"}, "'calibration' parameter of MaxMargin must be .*'loo'"),
    ],
)
def test_what_cannot_be(parameters, message):
    with pytest.raises(ValueError, match=message):
        MaxMargin(**parameters).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("lambdas", [[], [0.0, 1.0], [-1.0], [np.nan], [np.inf]])
def test_lambdas_of_a_path(lambdas):
    with pytest.raises(ValueError, match="lambdas must be numbers from 1e-100 to 1e"):
        MaxMargin().path([[0.0], [1.0]], [0, 1], lambdas=lambdas)


def test_the_lambda_of_a_fit_stays_as_parameters_change():
    clf = MaxMargin(soft_margin=2.0).fit(*load_iris(return_X_y=True))
    assert clf.set_params(soft_margin="auto").soft_margin_ == 2.0


def test_attributes_say_when_they_are_there():
    clf = MaxMargin(soft_margin=2.0).fit([[0.0], [1.0]], [0, 1])
    assert clf.soft_margin_ == 2.0
    with pytest.raises(AttributeError, match="only after a fit with soft_margin='auto'"):
        _ = clf.path_
    assert not hasattr(clf, "predict_proba")
    with pytest.raises(AttributeError, match="set calibration='loo' before it learns, or wrap"):
        _ = clf.predict_proba
    with pytest.raises(NotFittedError, match="since calibration='loo' was set"):
        clf.set_params(calibration="loo").predict_proba([[0.0]])


def test_probabilities_of_shards_are_refused():
    shards = [Held(0, "rows", np.array([[0.0], [1.0]]), np.array([0, 1]))]
    with pytest.raises(ValueError, match="got calibration='loo': use calibration=None"):
        fit(MaxMargin(calibration="loo"), shards)


# ------------------------------------------------------------------------------------ probabilities
def test_probabilities_are_sigmoids_of_leave_one_out_scores():
    X, y, s = drawn(11, n=80)
    margins, _ = refitted(X, y, s, 2.0, intercept=True, keep_states=True)
    own, rest = s[y > 0].sum(), s[y < 0].sum()
    targets = np.where(y > 0, (own + 1) / (own + 2), 1 / (rest + 2))

    def log_loss(theta):
        chances = expit(theta[0] + theta[1] * y * margins)
        return -s @ (targets * np.log(chances) + (1 - targets) * np.log(1 - chances))

    offset, slope = minimize(log_loss, [0.0, 0.0], tol=1e-12).x
    clf = MaxMargin(soft_margin=2.0, calibration="loo", tol=1e-8).fit(X, y, sample_weight=s)
    wanted = expit(offset + slope * clf.decision_function(X))
    np.testing.assert_allclose(clf.predict_proba(X)[:, 1], wanted, atol=1e-4)


def test_probabilities_in_a_kernels_space():
    """Those of a linear kernel are those of the primal, up to the certified gap."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    given = {"calibration": "loo", "soft_margin": 3.0, "tol": 1e-8}
    wanted = MaxMargin(**given).fit(X, y).predict_proba(X)
    found = MaxMargin(kernel=products, **given).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_they_do_not_change_the_model():
    X, y = load_iris(return_X_y=True)
    without, calibrated = (MaxMargin(calibration=each).fit(X, y) for each in (None, "loo"))
    np.testing.assert_array_equal(without.coef_, calibrated.coef_)
    chances = calibrated.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(calibrated.predict_log_proba(X)), chances)


def test_class_weights_do_not_move_probabilities_far():
    random = np.random.default_rng(2)
    X = random.normal(size=(1000, 3))
    y = X[:, 0] + random.normal(size=1000) > 1.0
    for weight in (None, "balanced"):
        clf = MaxMargin(calibration="loo", class_weight=weight).fit(X, y)
        assert clf.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)


# -------------------------------------------------------------------------------------------- files
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_files_and_copies_know_the_choice(tmp_path, kernel):
    X, y = load_iris(return_X_y=True)
    clf = MaxMargin(soft_margin="auto", calibration="loo", kernel=kernel).fit(X, y)
    maxmargin.save(clf, tmp_path / "model")
    for again in (maxmargin.load(tmp_path / "model"), pickle.loads(pickle.dumps(clf))):
        assert again.soft_margin_ == clf.soft_margin_
        for ours, theirs in zip(again.path_, clf.path_, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
        assert again.soft_margin == "auto"
    assert clone(clf).soft_margin == "auto"


BROKEN = {
    "no table": lambda path: "best",
    "another part": lambda path: path | {"more": 1},
    "a part is missing": lambda path: {k: v for k, v in path.items() if k != "method"},
    "no array": lambda path: path | {"margins": 1.0},
    "other numbers": lambda path: path | {"lambdas": path["lambdas"].astype(int)},
    "another length": lambda path: path | {"loo_loss": path["loo_loss"][1:]},
    "another shape": lambda path: path | {"bounds": path["bounds"].T},
    "no lambda": lambda path: path | {"lambdas": -path["lambdas"]},
    "nothing is known": lambda path: path | {"loo_loss": np.nan * path["loo_loss"]},
    "a count that is none": lambda path: path | {"n_left_out": "all"},
}


@pytest.mark.parametrize("how", BROKEN)
def test_paths_of_files_are_checked(how):
    clf = MaxMargin(soft_margin="auto").fit(*load_iris(return_X_y=True))
    found = copy.deepcopy(clf.__learned__())
    found["path"] = BROKEN[how](found["path"])
    with pytest.raises(Misfit, match="path: "):
        clone(clf).__relearn__(found)
