"""`fit` ends where rows cannot be separated, with the best weights that it had."""

import numpy as np
import pytest
from extent import everything_or
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from maxmargin import (
    ALMA,
    AMIRA,
    MICRA,
    DirectionalPerceptron,
    PassiveAggressive,
    Perceptron,
    Relaxation,
)
from maxmargin.certificates.directed_rounding import text_up
from maxmargin.datasets import make_separable
from maxmargin.training import passes
from maxmargin.training.passes import MistakeProgress

LEARNERS = (ALMA, AMIRA, MICRA, DirectionalPerceptron, PassiveAggressive, Perceptron, Relaxation)


def noisy(noise, n=20_000, d=5, classes=2, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    y = (X @ random.normal(size=(d, classes))).argmax(axis=1)
    wrong = random.random(n) < noise
    y[wrong] = random.integers(0, classes, wrong.sum())
    return X, y


@pytest.mark.parametrize("Learner", LEARNERS)
def test_noisy_rows_end_the_fit(Learner):
    X, y = noisy(0.1)
    clf = Learner(random_state=0)
    with pytest.warns(ConvergenceWarning, match=f"{Learner.__name__} gave up after") as record:
        clf.fit(X, y)
    assert len(record) == 1
    assert f"by more than {text_up(clf.certificate_.bound, 2)}" in str(record[0].message)
    assert clf.n_iter_ <= 40
    assert not clf.converged_
    stubborn = Learner(random_state=0, max_iter=200, n_iter_no_change=None)
    if Learner is DirectionalPerceptron:
        stubborn.set_params(beta=1e-9)  # what is proved out of reach ends a fit, too
    stubborn.fit(X, y)
    assert stubborn.n_iter_ == 200
    assert clf.score(X, y) >= stubborn.score(X, y) - 0.003


@pytest.mark.parametrize("Learner", LEARNERS)
def test_rows_that_can_be_separated_are(Learner):
    X, y = noisy(0.0, d=3)
    apart = np.abs(X @ np.linalg.lstsq(X, 2.0 * y - 1.0, rcond=None)[0]) > 0.05
    X, y = X[apart], y[apart]
    clf = Learner(random_state=0).fit(X, y)
    stubborn = Learner(random_state=0, n_iter_no_change=None).fit(X, y)
    assert clf.n_iter_ == stubborn.n_iter_
    np.testing.assert_array_equal(clf.coef_, stubborn.coef_)


@pytest.mark.parametrize("clf", [Perceptron(), AMIRA(epsilon=1.0)], ids=repr)
def test_no_separable_rows_are_abandoned(clf):
    # Mistakes fall from 2 400 to 140 a pass over hundreds of passes, and then to 0.
    for seed in everything_or([0, 2, 9, 152], range(200)):
        X, y = make_separable(10_000, gap=0.12, random_state=seed)
        fitted = clone(clf).set_params(max_iter=10**6, random_state=seed).fit(X, y)
        assert fitted.converged_
        assert fitted.score(X, y) == 1.0


def test_alma_goes_on_while_a_margin_is_possible():
    # In 80 passes the second half has 0.85 of the mistakes of the first: as with noise.
    X, y = make_separable(10_000, gap=0.12, random_state=1002)
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        clf = ALMA(max_iter=120, random_state=0).fit(X, y)
    assert clf.n_iter_ == 120
    with pytest.warns(ConvergenceWarning, match="gave up after"):  # nothing is proved of this B
        ALMA(B=28.3, max_iter=120, random_state=0).fit(X, y)


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_alma_never_gives_up_where_its_theorem_promises_an_end(monkeypatch, alpha):
    # All passes seem to make no progress: what is proved decides alone.
    monkeypatch.setattr(passes, "NO_PROGRESS", -1.0)
    monkeypatch.setattr(passes, "LEAST_LEARNED", 1)
    for seed in range(5):
        X, y, w, b = make_separable(300, 3, gap=0.2, random_state=seed, return_target=True)
        margin = np.min(y * (X @ w + b)) / np.hypot(1.0, b)  # the intercept is a coordinate
        radius = np.sqrt(1.0 + np.max(np.sum(X * X, axis=1)))
        most = int(ALMA.max_updates(alpha, margin / radius) / 300) + 1
        clf = ALMA(alpha=alpha, max_iter=most, n_iter_no_change=1, random_state=seed)
        assert clf.fit(X, y).converged_
        y[:90] *= -1  # which nothing separates
        with pytest.warns(ConvergenceWarning, match="gave up after"):
            clf.fit(X, y)
        assert clf.n_iter_ < most


def test_a_fit_that_never_gives_up_makes_all_passes():
    X, y = noisy(0.3, n=400)
    with pytest.warns(ConvergenceWarning, match=r"Increase max_iter"):
        clf = Perceptron(n_iter_no_change=None, max_iter=600, random_state=0).fit(X, y)
    assert clf.n_iter_ == 600
    with pytest.raises(ValueError, match="The 'n_iter_no_change' parameter of Perceptron"):
        clf.set_params(n_iter_no_change=0).fit(X, y)


@pytest.mark.parametrize(
    "clf",
    [
        Perceptron(random_state=0),
        Perceptron(random_state=0, multiclass="1-best"),
        AMIRA(random_state=0),
        AMIRA(random_state=0, intercept="pair", multiclass="ovr"),
    ],
    ids=repr,
)
def test_the_weights_are_those_with_the_fewest_errors(monkeypatch, clf):
    monkeypatch.setattr(passes, "LEAST_LEARNED", 1)
    X, y = noisy(0.3, n=400, classes=3)
    seen = []
    errors = passes._errors
    monkeypatch.setattr(passes, "_errors", lambda *args: (seen.append(errors(*args)), seen[-1])[1])
    with pytest.warns(ConvergenceWarning, match="fewest errors"):
        clf.fit(X, y)
    assert len(seen) >= 24
    assert np.mean(clf.predict(X) != y) == min(seen)
    clf.partial_fit(X, y)  # which goes on from there
    assert clf.n_updates_ > 0


def test_kernels_keep_their_last_weights(monkeypatch):
    monkeypatch.setattr(passes, "LEAST_LEARNED", 1)
    X, y = noisy(0.3, n=400)
    with pytest.warns(ConvergenceWarning, match="gave up after") as record:
        Perceptron(kernel="poly", degree=2, random_state=0).fit(X, y)
    assert "fewest errors" not in str(record[0].message)


def test_averaged_weights_need_no_comparison(monkeypatch):
    monkeypatch.setattr(passes, "LEAST_LEARNED", 1)
    X, y = noisy(0.3, n=400)
    with pytest.warns(ConvergenceWarning, match="gave up") as record:
        clf = Perceptron(average=True, random_state=0).fit(X, y)
    assert "fewest errors" not in str(record[0].message)
    assert clf.score(X, y) > 0.7


def passes_until_the_end(mistakes, count=50_000, n_iter_no_change=5):
    progress = MistakeProgress(count, n_iter_no_change)
    ends = [progress.ends_with(made) for made in mistakes]
    return ends.index(True) + 1 if any(ends) else None


def test_constant_mistakes_end_a_fit():
    assert passes_until_the_end(20 * [5_000]) == 10
    assert passes_until_the_end(20 * [5_000], n_iter_no_change=8) == 16
    # Few mistakes take more passes to be sure of, and small data take as many rows.
    assert 100 < passes_until_the_end(1000 * [4]) < 300
    assert passes_until_the_end(1000 * [100], count=1000) == 200


@pytest.mark.parametrize("exponent", [0.4, 0.5, 1.0])
@pytest.mark.parametrize("first", [20, 3_000])
def test_falling_mistakes_do_not(exponent, first):
    random = np.random.default_rng(0)
    expected = first / np.arange(1, 5_000) ** exponent
    assert passes_until_the_end(random.poisson(expected)) is None
    assert passes_until_the_end(5_000 * [0]) is None


def test_fits_that_are_called_are_told_each():
    X, y = noisy(0.2, n=400)
    clf = make_pipeline(AMIRA(random_state=0, max_iter=3))
    for _ in range(2):
        with pytest.warns(ConvergenceWarning) as record:
            clf.fit(X, y)
        assert len(record) == 1


# ------------------------------------------------------------------------------------------- advice
@pytest.mark.parametrize(
    ("clf", "advice"),
    [
        (Perceptron(), "set soft_margin or average, or use MaxMargin"),
        (Perceptron(average=True), "set soft_margin, or use MaxMargin"),
        (PassiveAggressive(), "set soft_margin or average or C, or use MaxMargin"),
        (PassiveAggressive(C=0.01), "set soft_margin or average, or use MaxMargin"),
        (PassiveAggressive(C=0.01, average=True), "set soft_margin, or use MaxMargin"),
    ],
    ids=repr,
)
def test_only_what_is_not_set_is_recommended(clf, advice):
    X, y = noisy(0.3)
    clf = clone(clf).set_params(random_state=0)
    with pytest.warns(ConvergenceWarning, match="gave up after") as record:
        clf.fit(X, y)
    said = str(record[0].message)
    assert f"{advice}; if they can, set n_iter_no_change=None." in said
    assert ("The weights are the average of those on the way" in said) == clf.average


def test_where_all_is_set_the_exact_learner_remains():
    said = MistakeProgress(100, 5).complaint("Mine", 0.1, 7, unset=(), averages=True)
    assert "which suits such rows. If the rows cannot be separated, use MaxMargin;" in said
