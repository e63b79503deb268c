"""The bisection for the largest directional margin, and the bounds of the Perceptrons inside."""

import math
import warnings

import numpy as np
import pytest
from extent import everything_or
from problems import overlapping, separable, three_classes
from reference import max_margin
from reference_pnorm import bisection
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from maxmargin import BisectionPerceptron, DirectionalPerceptron, Perceptron
from maxmargin_papers.experiments.printed_bisection import PrintedBisection

FORMS = {"dense": np.asarray, "CSR": sparse.csr_matrix}

every_form = pytest.mark.parametrize("form", FORMS)
# What takes long for each.
some_seeds = pytest.mark.parametrize("seed", everything_or([0], [0, 1, 2]))
both_implementations = pytest.mark.parametrize("two_stage", [False, True])


def longer(X, rho):
    return np.hstack([X, np.full((len(X), 1), rho)])


def directional_margin(clf, X, y, rho, c=0):
    weights = np.append(clf.coef_[c], clf.intercept_[c] / rho)
    return np.min(y * (longer(X, rho) @ weights)) / np.linalg.norm(weights)


def assert_brackets(rounds, best):
    for one in rounds:
        if one.outcome == "reached":
            assert one.beta < one.found <= best * (1 + 1e-9)
        elif one.outcome == "hopeless":
            assert one.beta >= best * (1 - 1e-9)
        elif one.outcome == "second stage":
            assert 0 < one.found <= best * (1 + 1e-9)
        else:
            assert one.outcome == "given up"
        assert math.isnan(one.found) == (one.outcome in ("hopeless", "given up"))


# ---------------------------------------------------------------------------------- the bisection


@every_form
@both_implementations
@pytest.mark.parametrize("rho", [1.0, 5.0])
@some_seeds
def test_it_brackets_the_directional_margin(form, two_stage, rho, seed):
    X, y = separable(n=40, d=3, gap=0.5, shift=0.3, seed=seed)
    best, _, _ = max_margin(longer(X, rho), y, intercept=False)
    clf = BisectionPerceptron(
        precision=0.02, two_stage=two_stage, intercept_scaling=rho, random_state=seed
    ).fit(FORMS[form](X), y)
    assert clf.converged_
    assert_brackets(clf.rounds_, best)
    found = directional_margin(clf, X, y, rho)
    assert (1 - 2 * 0.02) * best <= found <= best * (1 + 1e-9)
    assert found == pytest.approx(np.nanmax([one.found for one in clf.rounds_]), rel=1e-9)
    assert clf.rounds_[0].beta == 0.0
    assert clf.n_iter_ == sum(one.checks for one in clf.rounds_) // 40
    geometric, _, _ = max_margin(X, y, intercept=True)
    assert clf.certificate_.margin <= geometric * (1 + 1e-9)
    assert clf.certificate_.bound >= geometric


@both_implementations
def test_as_good_as_the_reference(two_stage):
    X, y = separable(n=30, d=3, gap=0.5, shift=0.0, seed=1)
    theirs = bisection(X, y, precision=0.01, max_checks=6000, two_stage=two_stage)
    clf = BisectionPerceptron(
        precision=0.01, two_stage=two_stage, fit_intercept=False, random_state=0
    ).fit(X, y)
    margin = np.min(y * (X @ clf.coef_[0])) / np.linalg.norm(clf.coef_)
    assert margin >= 0.98 * theirs.margin


def test_both_outcomes_of_failed_rounds_occur():
    X, y = separable(n=40, d=3, gap=0.1, shift=0.3, seed=0)
    outcomes = {
        one.outcome
        for seed in range(3)
        for checks in (400, 4000, 40_000)
        for one in BisectionPerceptron(max_checks=checks, random_state=seed).fit(X, y).rounds_
    }
    assert {"reached", "hopeless", "second stage"} <= outcomes


@both_implementations
@pytest.mark.parametrize("max_checks", [100, 1000])
def test_rounds_are_bounded(two_stage, max_checks):
    X, y = separable(n=40, d=3, gap=0.3, shift=0.3, seed=0)
    best, _, _ = max_margin(longer(X, 1.0), y, intercept=False)
    clf = BisectionPerceptron(max_checks=max_checks, two_stage=two_stage, random_state=0)
    assert_brackets(clf.fit(X, y).rounds_, best)
    assert all(0 < one.checks <= max_checks for one in clf.rounds_)


def test_several_classes():
    X, y = three_classes(n=60, d=3)
    clf = BisectionPerceptron(precision=0.02, random_state=0).fit(X, y)
    assert len(clf.rounds_) == 3
    for c, rounds in enumerate(clf.rounds_):
        signs = np.where(y == c, 1, -1)
        best, _, _ = max_margin(longer(X, 1.0), signs, intercept=False)
        assert_brackets(rounds, best)
        found = directional_margin(clf, X, signs, 1.0, c)
        assert (1 - 2 * 0.02) * best <= found <= best * (1 + 1e-9)
        geometric, _, _ = max_margin(X, signs, intercept=True)
        assert clf.certificate_.classes[c].bound >= geometric
    assert clf.score(X, y) == 1.0


def test_what_cannot_be_separated():
    X, y = overlapping(n=40)
    with pytest.warns(ConvergenceWarning, match="no separating hyperplane"):
        clf = BisectionPerceptron(max_checks=2000, random_state=0).fit(X, y)
    assert not clf.converged_
    assert [one.outcome for one in clf.rounds_] == ["hopeless"]
    assert clf.certificate_.ratio == 0.0


# ----------------------------------------------------------------------- the paper's own bisections


@every_form
@both_implementations
@pytest.mark.parametrize("max_checks", [240, 2400])
@some_seeds
def test_the_bisections_of_the_paper(form, two_stage, max_checks, seed):
    X, y = separable(n=30, d=3, gap=0.3, shift=0.0, seed=seed)
    smallest = np.linalg.norm(X, axis=1).min()
    theirs = bisection(X, y, precision=0.02 * smallest, max_checks=max_checks, two_stage=two_stage)
    clf = PrintedBisection(
        precision=0.02,
        max_checks=max_checks,
        two_stage=two_stage,
        fit_intercept=False,
        shuffle=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(FORMS[form](X), y)
    assert len(clf.rounds_) == len(theirs.rounds)
    for one, other in zip(clf.rounds_, theirs.rounds, strict=True):
        assert one.beta == pytest.approx(other.beta, rel=1e-12)
        assert (one.outcome == "reached") == other.success
        assert one.checks == other.checks
        assert np.nan_to_num(one.found) == pytest.approx(other.found, rel=1e-9)
    np.testing.assert_allclose(clf.coef_[0], theirs.w, rtol=1e-9)
    if theirs.margin > 0.0:
        assert clf.certificate_.margin >= theirs.margin * (1 - 1e-9)
        best, _, _ = max_margin(X, y, intercept=False)
        assert clf.certificate_.bound >= best


def test_both_implementations_of_the_paper_profit_from_checks():
    X, y = separable(n=30, d=3, gap=0.3, shift=0.0, seed=0)
    outcomes = set()
    for max_checks in (240, 2400, 24_000):
        clf = PrintedBisection(max_checks=max_checks, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            outcomes |= {one.outcome for one in clf.fit(X, y).rounds_}
    assert outcomes >= {"reached", "second stage"}
    assert clf.certificate_.ratio > 0.9


@pytest.mark.slow
def test_the_bisection_of_the_paper_with_a_kernel_and_classes():
    X, y = three_classes(n=40, d=3)
    clf = PrintedBisection(kernel="rbf", gamma=0.5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(X, y)
    assert len(clf.rounds_) == 3
    assert clf.score(X, y) == 1.0
    # Rows have norm 1 there, and sqrt(2) with the intercept's coordinate.
    assert clf.rounds_[0][0].beta == pytest.approx(np.sqrt(2.0) / 2)


@both_implementations
def test_what_cannot_be_separated_by_the_bisections_of_the_paper(two_stage):
    clf = PrintedBisection(two_stage=two_stage, max_checks=400, fit_intercept=False, random_state=0)
    X, y = overlapping(n=40)
    with pytest.warns(ConvergenceWarning, match="no separating hyperplane"):
        clf.fit(X, y)
    assert not clf.converged_
    X[0] = 0.0
    with pytest.warns(ConvergenceWarning, match="no separating hyperplane"):
        clf.fit(X, y)
    assert clf.rounds_ == []


@pytest.mark.parametrize("method", ["partial_fit", "learn_one", "fit_stream"])
def test_rows_that_come_later_are_refused(method):
    assert not hasattr(BisectionPerceptron(), method)
    with pytest.raises(AttributeError, match=f"all rows at once: it has no {method}"):
        getattr(BisectionPerceptron(), method)


# ------------------------------------------------------------------------------------- the bounds


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("radius", [1.5, 10.0, 300.0])
@pytest.mark.parametrize("spread", [1.0, 1.05])
def test_max_updates_refined_solves_its_equation(beta, radius, spread):
    t = DirectionalPerceptron.max_updates_refined(beta, radius, 1.0, spread)
    k = spread * radius
    N = max(1, math.floor(k / 2 / (1 - beta / radius)))
    right = 0.5 * k**2 / (1 - spread * beta)
    if t > N + 1:
        left = (t - N) / (1 + 1 / N + math.log((t - 1) / N))
        assert left == pytest.approx(right, rel=1e-9)
    else:
        assert right <= 1 / (1 + 1 / N)


@pytest.mark.parametrize("radius", [10.0, 300.0])
@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_refined_is_sharper(radius, beta):
    refined = DirectionalPerceptron.max_updates_refined(beta, radius, 1.0)
    assert refined <= DirectionalPerceptron.max_updates(beta, radius, 1.0)


def test_bounds_in_numbers():
    assert DirectionalPerceptron.critical_rate(0.5, 2.0, 1.0) == pytest.approx(1 / 6)
    assert DirectionalPerceptron.critical_rate(0.5, 2.0, 1.0, f_max=2.0) == pytest.approx(1 / 12)
    assert DirectionalPerceptron.stepwise_from(0.5, 2.0, 1.0) == 3.0
    assert DirectionalPerceptron.stepwise_from(0.5, 2.0, 1.0, spread=1.5) == 4.5
    assert Perceptron.stepwise_from(2.0, 1.0) == 1.5
    assert Perceptron.stepwise_from(2.0, 0.5, threshold=3.0, rate=2.0) == 7.5 + 6.0
    assert DirectionalPerceptron.largest_ratio(3.0, 4.0) == 1.25
    assert DirectionalPerceptron.max_updates_refined(1.0, 2.0, 1.0) == math.inf
    assert DirectionalPerceptron.max_updates_refined(0.9, 2.0, 1.0, spread=1.2) == math.inf


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_bounds_hold(seed, share):
    X, y = separable(n=40, d=3, gap=0.5, shift=0.0, seed=seed)
    best, _, _ = max_margin(X, y, intercept=False)
    radius, smallest = np.linalg.norm(X, axis=1).max(), np.linalg.norm(X, axis=1).min()
    beta = share * best
    plain = DirectionalPerceptron(beta=beta, fit_intercept=False, random_state=seed).fit(X, y)
    assert plain.converged_
    assert plain.n_updates_ <= DirectionalPerceptron.max_updates_refined(beta, radius, best)
    spread = DirectionalPerceptron.step_spread(beta, smallest)
    if spread * beta < best:
        relaxed = DirectionalPerceptron(
            beta=beta, step="relaxed", fit_intercept=False, random_state=seed
        ).fit(X, y)
        most = DirectionalPerceptron.max_updates_refined(beta, radius, best, spread)
        assert relaxed.n_updates_ <= most


def cosines(clf, X, y, u):
    """Of w and u, after each update of some passes."""
    found = []
    for i in np.tile(np.arange(len(X)), 100):
        clf.partial_fit(X[i : i + 1], y[i : i + 1], classes=[-1, 1])
        if clf.n_updates_ > len(found):
            found.append(clf.coef_[0] @ u / np.linalg.norm(clf.coef_))
    return np.array(found)


@some_seeds
def test_below_the_critical_rate_updates_turn_towards_the_best_direction(seed):
    X, y = separable(n=20, d=3, gap=0.2, shift=0.0, seed=seed)
    X /= np.linalg.norm(X, axis=1)[:, None]
    best, w, _ = max_margin(X, y, intercept=False)
    beta = 0.95 * best
    rate = 0.99 * DirectionalPerceptron.critical_rate(beta, 1.0, best)
    clf = DirectionalPerceptron(beta=beta, length="fixed", rate=rate, fit_intercept=False)
    found = cosines(clf, X, y, best * w)
    assert found.size > 20
    assert (np.diff(found) > 0.0).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rho", [0.5, 2.0, 20.0])
def test_largest_ratio_holds(seed, rho):
    X, y = separable(n=40, d=3, gap=0.3, seed=seed)
    geometric, _, _ = max_margin(X, y, intercept=True)
    directional, _, _ = max_margin(longer(X, rho), y, intercept=False)
    radius = np.linalg.norm(X, axis=1).max()
    ratio = geometric / directional
    assert 1 - 1e-9 <= ratio <= DirectionalPerceptron.largest_ratio(radius, rho)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rho", [0.5, 2.0, 20.0])
def test_margins_of_any_hyperplane_between_the_classes(seed, rho):
    """(2.60) to (2.65), for hyperplanes found by Perceptrons."""
    X, y = separable(n=40, d=3, gap=0.3, seed=seed)
    clf = Perceptron(intercept_scaling=rho, max_iter=10_000, random_state=seed).fit(X, y)
    w, b = clf.coef_[0], clf.intercept_[0]
    functional = (y * (X @ w + b)).min()
    assert functional > 0.0
    geometric = functional / np.linalg.norm(w)
    directional = functional / np.hypot(np.linalg.norm(w), b / rho)
    radius = np.linalg.norm(X, axis=1).max()
    assert abs(b / rho) / np.linalg.norm(w) <= radius / rho * (1 + 1e-9)
    assert directional <= geometric
    assert geometric <= DirectionalPerceptron.largest_ratio(radius, rho) * directional * (1 + 1e-9)
