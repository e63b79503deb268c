"""`MaxMargin` from shards, against the fit of all rows at once and against exact solutions."""

import numpy as np
import pytest
from brackets import best_margin, drawn
from distributed_parts import evenly, held, noisy, same
from extent import EVERYTHING
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info, threadpool_limits

from maxmargin import MaxMargin
from maxmargin.distributed import Plain, distributed_newton, fit, survey
from maxmargin.solvers import newton_passes as passes


@pytest.fixture
def small_samples(monkeypatch):
    """So few rows that rounds have something left to do."""
    monkeypatch.setattr(survey, "LEAST_SAMPLE", 20)
    monkeypatch.setattr(survey, "PER_FEATURE", 1)


def rounds_of(clf, shards, **more):
    """The ratios after each round."""
    ratios = []
    fit(clf, shards, report=lambda progress: ratios.append(progress.ratio), **more)
    return ratios


def of_each(clf):
    """The certificates of all problems."""
    return clf.certificate_.classes or (clf.certificate_,)


# Steps of the last one lead to kinks, beyond which other rows are active.
SEEDS = range(500) if EVERYTHING else [*range(60), 360]
# Of these the bound is weaker than in one process: shards round each slack anew.
WEAKER = {98, 172, 308}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_margin_is_between_margin_and_bound(seed, small_samples):
    random = np.random.default_rng(seed)
    X, y, weights, penalty = drawn(random)
    penalty = penalty or 1.0
    intercept = bool(random.integers(2))
    clf = MaxMargin(soft_margin=penalty, tol=1e-4, fit_intercept=intercept)
    cuts = random.integers(0, y.size + 1, size=random.integers(0, 12))
    fit(clf, held(X, y, cuts, weights))
    attained, bound = best_margin(X, y, weights, penalty, intercept)
    certificate = clf.certificate_
    assert certificate.bound >= attained * (1 - 1e-12)
    assert certificate.margin <= bound * (1 + 1e-12)
    if not clf.converged_:
        # Rows that are much longer than their differences are rounded as such, and so is what
        # proves the bound; the margin is that of a fit in one process all the same.
        assert np.abs(X).max() > 1e5 * X.std(axis=0).max()
        whole = MaxMargin(soft_margin=penalty, tol=1e-4, fit_intercept=intercept)
        whole.fit(X, y, sample_weight=weights)
        assert certificate.margin > 0.99 * whole.certificate_.margin
        assert certificate.ratio > min(0.99, whole.certificate_.ratio) or seed in WEAKER


def test_costs_along_a_step_and_how_they_change():
    random = np.random.default_rng(0)
    slack, change = random.normal(size=(2, 3, 40))
    sample_weight, numbers = random.uniform(0.5, 2.0, size=90), random.permutation(90)[:40]
    lengths, h = np.array([0.1, 1.0, 1.7]), 1e-5
    found = np.zeros((3, 3, 2))
    chosen = passes.Chosen(numbers, None, None, sample_weight, 0)
    passes.along_steps(slack, change, chosen, np.array([0, 2]), lengths, found)

    def cost(t):
        left = np.maximum(slack[:, None] - t[:, None] * change[:, None], 0.0)
        return (sample_weight[numbers] * left**2).sum(axis=-1)

    before, here, behind = (cost(lengths + k * h) for k in (-1, 0, 1))
    expected = np.stack([here, (behind - before) / (4 * h)])
    expected[:, 1] = 0.0  # was not asked for
    np.testing.assert_allclose(found.transpose(2, 0, 1), expected, rtol=1e-5)


def test_the_best_length_of_a_step():
    t = distributed_newton.LENGTHS
    for least, expected in ((2.0, 1.0), (0.9, 1.0), (0.07, 0.07), (0.0004, 0.0004), (-1.0, 0.0)):
        length = distributed_newton.best_length((t - least) ** 2, t - least)
        assert length == pytest.approx(expected)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_it_is_the_fit_of_all_rows(classes, as_sparse, small_samples):
    X, y = noisy(3000, 10, classes)
    if as_sparse:
        X = sparse.csr_matrix(X * (np.random.default_rng(1).random(X.shape) < 0.2))
    clf = MaxMargin(soft_margin=1.0, tol=1e-6)
    whole = clone(clf).fit(X, y)
    ratios = rounds_of(clf, evenly(X, y, 7))
    assert 2 <= len(ratios) <= 12
    assert ratios[0] < 1 - 1e-6 <= ratios[-1]
    assert clf.converged_
    for mine, best in zip(of_each(clf), of_each(whole), strict=True):
        assert mine.margin == pytest.approx(best.margin, rel=1e-6)
    assert (clf.predict(X) == whole.predict(X)).mean() >= 0.999


def test_a_limit_of_rounds(small_samples):
    X, y = noisy(2000, 6)
    clf = MaxMargin(tol=1e-9, max_iter=1)
    with pytest.warns(ConvergenceWarning, match=r"after 1 step; .* Increase max_iter,"):
        fit(clf, evenly(X, y, 4))
    assert clf.n_iter_ == 1


def test_weights_of_rows_and_classes(small_samples):
    X, y = noisy(2000, 6)
    weights = np.random.default_rng(2).integers(0, 4, size=2000)
    how = {"soft_margin": 1.0, "tol": 1e-8, "class_weight": "balanced"}
    whole = MaxMargin(**how).fit(X, y, sample_weight=weights)
    parts = fit(MaxMargin(**how), evenly(X, y, 5, weights))
    repeated = fit(MaxMargin(**how), evenly(X.repeat(weights, axis=0), y.repeat(weights), 5))
    for other in (parts, repeated):
        assert other.certificate_.margin == pytest.approx(whole.certificate_.margin, rel=1e-7)
        np.testing.assert_allclose(other.coef_, whole.coef_, rtol=1e-3)


def test_several_labels_a_row(small_samples):
    X, y = noisy(1000, 5, 3)
    Y = (y[:, None] == np.arange(3)).astype(int)
    clf, whole = fit(MaxMargin(), evenly(X, Y, 4)), MaxMargin().fit(X, Y)
    assert (clf.predict(X) == whole.predict(X)).mean() > 0.999
    assert clf.predict(X).shape == Y.shape


def test_many_features_by_conjugate_gradients(monkeypatch, small_samples):
    X, y = noisy(1500, 40, offset=0.0)
    direct = fit(MaxMargin(tol=1e-4), evenly(X, y, 3))
    monkeypatch.setattr(distributed_newton, "MOST_DIRECT", 10)
    clf = fit(MaxMargin(tol=1e-4), evenly(X, y, 3))
    assert clf.converged_
    assert clf.certificate_.margin == pytest.approx(direct.certificate_.margin, rel=1e-4)


def test_a_bad_step_is_made_shorter(monkeypatch, small_samples):
    """Steps that go much too far cost rounds, and nothing else."""
    X, y = noisy(2000, 8)
    found = distributed_newton.newton_step

    def too_far(*given):
        return 20.0 * found(*given)

    monkeypatch.setattr(distributed_newton, "newton_step", too_far)
    clf = MaxMargin()
    ratios = rounds_of(clf, evenly(X, y, 3))
    assert clf.converged_
    assert len(ratios) > len(rounds_of(MaxMargin(), evenly(X, y, 3))) - 2


@settings(max_examples=30)
@given(
    cuts=st.lists(st.integers(0, 300), max_size=20),
    n_jobs=st.integers(1, 3),
    by_label=st.booleans(),
)
def test_partitions(cuts, n_jobs, by_label):
    """Any cuts, empty shards and shards of one class, in any number of threads."""
    X, y = noisy(300, 4)
    if by_label:
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    shards = held(X, y, cuts)
    clf = fit(MaxMargin(), shards, Plain(n_jobs))
    assert clf.certificate_.ratio >= 0.999
    assert same(clf, fit(MaxMargin(), shards))
    whole = MaxMargin().fit(X, y).certificate_
    assert clf.certificate_.margin <= whole.bound
    assert whole.margin <= clf.certificate_.bound


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_the_certificate_of_any_round_is_valid(seed):
    """A bound after each round is above the best margin, and the margin is that of the weights."""
    random = np.random.default_rng(seed)
    X, y = noisy(200, 3, seed=seed)
    penalty = float(10.0 ** random.integers(-3, 3))
    best = MaxMargin(soft_margin=penalty, tol=1e-8).fit(X, y)
    signs = np.where(y == 1, 1, -1)
    for rounds in (1, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(survey, "LEAST_SAMPLE", 8)
            patch.setattr(survey, "PER_FEATURE", 1)
            clf = fit(MaxMargin(soft_margin=penalty, max_iter=rounds), evenly(X, y, 4))
        assert clf.n_iter_ <= rounds
        slack = np.maximum(0.0, 1.0 - signs * clf.decision_function(X))
        reached = 1 / np.sqrt((clf.coef_**2).sum() + (slack**2).sum() / penalty)
        assert clf.certificate_.bound >= best.certificate_.margin
        assert clf.certificate_.margin <= reached
        assert clf.certificate_.margin == pytest.approx(reached, rel=1e-9)


@pytest.mark.usefixtures("small_samples")
def test_the_coordinator_makes_a_step_in_one_thread(monkeypatch):
    """Its bits would depend on how many there are, and they would wait for each other."""
    threads, factor = [], distributed_newton.cholesky

    def seen(matrix):
        threads.extend(
            each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"
        )
        return factor(matrix)

    monkeypatch.setattr(distributed_newton, "cholesky", seen)
    with threadpool_limits(3):
        fit(MaxMargin(tol=1e-9), evenly(*noisy(300, 5), 3))
    assert threads
    assert set(threads) == {1}


# ------------------------------------------------------------------------------------------- lambda
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_few_rows_have_the_lambda_of_one_machine(classes, weighted):
    """All rows are in the sample then, in the same order."""
    X, y = noisy(900, 6, classes)
    weights = np.random.default_rng(3).integers(1, 4, size=900) if weighted else None
    whole = MaxMargin(tol=1e-6).fit(X, y, sample_weight=weights)
    clf = fit(MaxMargin(tol=1e-6), evenly(X, y, 5, weights))
    assert clf.soft_margin == "auto"
    assert clf.soft_margin_ == whole.soft_margin_
    for mine, theirs in zip(clf.path_, whole.path_, strict=True):
        if isinstance(theirs, np.ndarray):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)
        else:
            assert mine == theirs
    np.testing.assert_allclose(clf.coef_, whole.coef_, rtol=1e-2, atol=1e-4)


def test_lambda_of_many_rows_is_near_that_of_one_machine():
    """It is chosen on a sample, with the weights of its rows."""
    X, y = noisy(30_000, 40)
    for weights in (None, np.random.default_rng(4).uniform(0.5, 50.0, size=30_000)):
        clf = fit(MaxMargin(), evenly(X, y, 7, weights))
        assert clf.path_.n_left_out <= 4096
        assert same(clf, fit(MaxMargin(), evenly(X, y, 7, weights), Plain(3)))
        whole = MaxMargin().fit(X, y, sample_weight=weights)
        assert abs(np.log10(clf.soft_margin_ / whole.soft_margin_)) < 1.1
        given = MaxMargin(soft_margin=clf.soft_margin_)
        assert same(clf, fit(given, evenly(X, y, 7, weights)))


def test_lambda_needs_two_classes_in_the_sample():
    X, y = noisy(30_000, 3)
    y = (np.arange(y.size) == 77).astype(int)
    with pytest.raises(ValueError, match=r"drawn at random have only one: give soft_margin a num"):
        fit(MaxMargin(), evenly(X, y, 7))
    assert fit(MaxMargin(soft_margin=1.0), evenly(X, y, 7)).converged_
