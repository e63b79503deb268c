"""Random fits of all learners: no bound of a certificate is below a margin that can be attained.

``python tests/campaigns/random_fits.py 100000 --seed 1 --processes 2``

Margins are computed in extended precision, and apart from the library, of hyperplanes from three
places: the learner's own, the one by which the rows were made, and one near the best, from a
quadratic programme over the rows (for p > 2, from a sequence of such). Of `MaxMargin` with a soft
margin, values of its objective take the place of margins: the value of its own weights, and the
lowest that LIBSVM or coordinate ascent comes to.

At first most of the time goes into compiling: a learner, its kind of weights and of rows make a
loop, and there are hundreds. They are kept, as ever, where ``MAXMARGIN_CACHE_DIR`` says: what comes
after some thousand fits, and runs of the same sources after this one, are several times as quick.
"""

import argparse
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from functools import cache, partial
from itertools import combinations, permutations
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import nnls
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import maxmargin
from maxmargin import streams
from maxmargin.training.protocol import state_of

LONG = np.longdouble
ROUNDING = float(np.finfo(LONG).eps)
TINY = 1e-300
# How far above the bound a margin must be to count, relative to the bound.
TOLERANCE = 1e-12
# Of the margins that certificates state: relative, and in units of the longest row.
MARGIN_TOLERANCE, MARGIN_TOLERANCE_PER_RADIUS = 1e-6, 1e-9
# Of weighted problems with p = 2, on the way to one with another p.
SEARCH_STEPS = 12
# With a kernel, `MaxMargin` keeps kernel values in float32 from 257 rows on; some fits have more.
MANY_ROWS, MANY_SHARE = (260, 400), 0.2
# What may be refused, and how.
REFUSALS = re.compile(
    r"partial_fit cannot keep a soft margin with p="
    r"|needs all rows at once"
    r"|soft_margin > 0 gives each row a coordinate of its own"
    r"|warm_start needs the classes, the number of features"
    r"|warm_start with a kernel needs the (rows|labels) of the last fit"
    r"|The '(p|average|intercept)' parameter"
    r"|too (small|large) to compute with"
    r"|Sample weights cannot be combined with a soft margin"
    r"|'class_weight' has no effect on \w+ without a soft margin"
    r"|cannot go on with weights of rows"
    r"|diverged: its weights are not finite any more"
    r"|The kernel of row \d+ with itself is (not finite|.* too large for float32)"
    r"|MaxMargin found weights that are not finite"
)


class Step(NamedTuple):
    """A call that learns from rows; labels are 0, 1, ... There may be no weights."""

    method: str
    X: Any
    y: np.ndarray
    options: dict[str, Any]
    weights: np.ndarray | None = None


class Case(NamedTuple):
    """A learner, what it learns from, and the directions of the classes behind the last rows."""

    learner: Any
    steps: list[Step]
    planted: np.ndarray


class Finding(NamedTuple):
    """What is wrong: a "bound" below an attained margin, a "margin" above it, or an "exception"."""

    kind: str
    text: str


# -------------------------------------------------------------------------------- what can be drawn
def own_parameters(width, square):
    """What can be tried of each learner, for rows with norms and products of about that size."""
    small, both, margin = (0.001, 0.01, 0.1, 0.5, 1.0), (False, True), (0.0, 0.5, 1.0, square)
    rate, budget = (1.0, 0.1, 1 / square), (1, 3, 10)
    steps = {"step": ("constant", "relaxed"), "length": ("free", "fixed")}
    return {
        "ALMA": {"alpha": (0.1, 0.5, 1.0), "B": (None, 2.0)},
        "AMIRA": {"epsilon": (0.0, *small), "k": (None, 1, 2)},
        "BisectionPerceptron": {"precision": (0.01, 0.2), "max_checks": (50, 400)},
        "DirectionalPerceptron": {"beta": (0.01, width), "rate": (1.0, 0.3), **steps},
        "Forgetron": {"budget": budget},
        "MaxMargin": {
            "loss": ("hinge", "squared_hinge"),
            "tol": (1e-1, 1e-3, 1e-6),
            "max_iter": (1, 3, 100, 100, 300),
            "cache_size": (200.0, 1e-3),
            "kernel": ("linear", "linear", "rbf", "laplacian", "poly"),
            "multiclass": ("ovr", "joint"),
        },
        "MICRA": {"beta": (None, width), "eta": (1.0, 0.1), "zeta": (0.0, 0.5, 1.0)},
        "NORMA": {"decay": (0.0, 0.001, 0.5, 0.9), "margin": margin, "truncation": (0.0, 0.1)},
        "PUMMA": {"delta": (0.0, *small)},
        "PassiveAggressive": {"C": (None, 0.1, 1 / square), "loss": ("hinge", "squared_hinge")},
        "Pegasos": {"lambda_": (1e-4, 0.1, square), "project": both},
        "Perceptron": {"margin": margin, "rate": rate},
        "Projectron": {"threshold": (0.0, 0.1, 0.5, square), "plus": both},
        "ROMMA": {"delta": small},
        "RandomBudgetPerceptron": {"budget": budget},
        "Relaxation": {"target": (1.1, 2.0), "rate": (0.5, 1.0, 1.8)},
        "TrackingALMA": {"rate": rate, "radius": (1.0, 100.0, 1 / width), "margin": margin},
    }


def shared_parameters(size, name):
    """The same for parameters that many have; what comes twice is drawn more often."""
    keeps_rows = name in ("Forgetron", "RandomBudgetPerceptron", "Projectron")
    return {
        "fit_intercept": (False, True),
        "intercept_scaling": (1.0, 1.0, "max", 1e-3, 1e4, size),
        "soft_margin": (0.0, 0.0, 0.0, 1e-3 * size**2, size**2, 1e3 * size**2),
        "kernel": ("linear", *(("rbf",) * 2 if keeps_rows else ("linear",) * 3), "rbf", "poly"),
        "gamma": ("scale", "auto", 0.03 / size**2, 0.3 / size**2, 3 / size**2),
        "degree": (1, 2, 3),
        "coef0": (0.0, 1.0),
        "kernel_dtype": ("auto", "auto", "float32", "float64"),
        "max_iter": (1, 2, 5, 30, 300),
        "tol": (None, None, None, 0.1, 0.0),
        "shuffle": (False, True),
        "random_state": range(1000),
        "warm_start": (False, True),
        "p": (2.0, 2.0, 3.0, 4.0, 10.0, 20.0, 50.0),
        "multiclass": ("ovr", "1-best", "k-best" if name == "AMIRA" else "1-best"),
        "intercept": ("coordinate", "coordinate", "pair"),
        "budget": (None, None, None, 1, 3, 10),
        "on_full": ("oldest", "random", "project"),
        "average": (False, False, True),
    }


def pick(random, *values):
    return values[random.integers(len(values))]


def draw_learner(random, size, name, fixed):
    """A learner for rows of about that size; some of its parameters may be ``fixed``."""
    factor = 10.0 ** random.uniform(-2, 1)
    owned = own_parameters(factor * size, factor * size**2)
    known = getattr(maxmargin, name)().get_params()
    choices = {**shared_parameters(size, name), **owned[name]}
    drawn = {key: pick(random, *values) for key, values in choices.items() if key in known}
    if name == "MaxMargin":
        if drawn["kernel"] != "linear":
            drawn["soft_margin"] = pick(random, 0.0, 1e-3, 0.1, 1.0, 1e3)
        if (drawn | fixed)["multiclass"] == "joint":
            drawn |= {"loss": "squared_hinge"}
        if drawn["loss"] == "squared_hinge" and random.random() < 0.15:
            drawn["soft_margin"] = "auto"
    drawn |= fixed
    # Leave out most of what would be refused.
    if drawn["kernel"] != "linear" or drawn.get("budget"):
        drawn |= {"p": 2.0}
    if drawn.get("budget"):
        drawn |= {"intercept": "coordinate", "average": False}
    if drawn.get("p", 2.0) > 2.0 and random.random() < 0.9:
        drawn |= {"multiclass": "ovr", "average": False}
    return getattr(maxmargin, name)(**{key: drawn[key] for key in drawn if key in known})


def draw_rows(random, count, planted, gap):
    """Rows around the planted directions, and their classes, all of which occur."""
    classes, features = planted.shape
    y = random.permutation(np.arange(count) % classes)
    X, kind = random.normal(size=(count, features)), random.integers(5)
    if kind == 0:
        X = np.round(2 * X) / 2
    elif kind == 1:
        X = X[random.integers(0, count, count)] + 1e-9 * X
    if classes == 2:
        w = planted[1] / np.linalg.norm(planted[1])
        beyond = np.abs(random.normal(size=count)) * pick(random, 0.0, 1e-3, 1.0)
        X += np.outer((2 * y - 1) * (gap + beyond) - X @ w, w)
    else:
        X = gap * planted[y] + pick(random, 0.01, 0.3, 1.0) * X
    if random.random() < 0.15:
        y = random.permutation(y)  # hardly separable
    if random.random() < 0.2:
        X *= 10.0 ** random.uniform(-4, 4, (count, 1))
    if random.random() < 0.2:
        X[random.integers(count)] = X[random.integers(count)] * pick(random, 0.0, 1.0)
    return X, y


def draw_methods(random, learner):
    """What to call."""
    if isinstance(learner, maxmargin.BisectionPerceptron | maxmargin.MaxMargin):
        return pick(random, ["fit"], ["fit", "fit"])
    first = pick(random, "fit", "fit", "fit", "fit_stream", "partial_fit", "learn_one")
    last = pick(random, "fit", "fit", "fit_stream", "partial_fit", "learn_one")
    return pick(random, [first], [first], [first, last], [first, last], [first, first, last])


def draw_case(random, few=(), only=""):
    """All that a fit needs; of ``only`` one learner, if its name is given.

    To compile few loops, there may be ``few`` learners, given by name, fixed parameters and number
    of classes; then rows are dense, and float64.
    """
    size = 10.0 ** random.uniform(-12, 12) if random.random() < 0.7 else 1.0
    classes, features = pick(random, 2, 2, 3, 4), int(random.integers(1, 6))
    name, fixed = pick(random, *own_parameters(1.0, 1.0), "AMIRA", "PUMMA"), {}
    name = only or name
    if few:
        name, fixed, classes = pick(random, *few)
    learner = draw_learner(random, size, name, fixed)
    planted = random.normal(size=(classes, features))
    planted -= planted.mean(axis=0)
    gap = pick(random, 1e-9, 1e-6, 1e-3, 0.1, 0.1, 1.0, 1.0, 10.0)
    shift = random.normal(size=features) * pick(random, 0.0, 0.0, 1.0, 1e3, 1e6)
    count = int(random.integers(max(2, classes), pick(random, 13, 13, 13, 41)))
    may_be_many = (
        isinstance(learner, maxmargin.MaxMargin)
        and getattr(learner, "kernel", "linear") != "linear"
    )
    if may_be_many and random.random() < MANY_SHARE:
        count = int(random.integers(*MANY_ROWS))
    dtype = np.float64 if few else pick(random, np.float64, np.float64, np.float32)
    form = np.asarray if few else pick(random, np.asarray, np.asarray, sparse.csr_matrix)
    steps, methods = [], draw_methods(random, learner)
    again = random.random() < (0.2 if getattr(learner, "kernel", "linear") == "linear" else 0.6)
    grow = not few and {*methods} == {"partial_fit"} and random.random() < 0.5
    if grow and hasattr(learner, "multiclass"):
        learner.multiclass = "ovr"
    if methods[0] != "fit" and getattr(learner, "gamma", 1.0) == "scale":
        learner.gamma = 1 / size**2
    for method in methods:
        if not (steps and again):
            planted = planted if random.random() < 0.7 else -planted
            X, y = draw_rows(random, count, planted, gap)
            factor = 10.0 ** random.uniform(-2, 2) if random.random() < 0.2 else 1.0
            X = form((size * factor * (X + shift)).astype(dtype))
        elif random.random() < 0.3:
            y = random.permutation(y)
        some, options = slice(None), {"grow": True} if grow else {}
        if method == "fit_stream":
            options["passes"] = (
                pick(random, 1, 2, 7) if getattr(learner, "soft_margin", 0.0) == 0.0 else 1
            )
            options["block_size"] = pick(random, 40, 10**6)
        elif method != "fit" and random.random() < 0.5:
            some = slice(int(random.integers(1, count + 1)))
        narrow = grow and not steps and features > 1  # another column comes later
        steps.append(Step(method, X[some, : features - narrow], y[some], options))
    if not few and random.random() < 0.2:
        steps = weighted(random, learner, steps, classes)
    return Case(learner, steps, planted)


def weighted(random, learner, steps, classes):
    """The same with weights of rows, of which some may be 0, or of classes, or both."""
    of_rows, of_classes = pick(random, (True, False), (True, False), (False, True), (True, True))
    if of_classes:
        learner.class_weight = dict(enumerate(10.0 ** random.uniform(-1, 1, classes)))
    if of_rows:
        for n, step in enumerate(steps):
            weights = 10.0 ** random.uniform(-2, 2, step.y.size)
            some = random.integers(step.y.size)
            if random.random() < 0.3 and np.count_nonzero(step.y == step.y[some]) > 1:
                weights[some] = 0.0  # of its class there are others
            steps[n] = step._replace(weights=weights)
    return steps


def learn(case):
    """Make all calls."""
    clf, known = case.learner, {"classes": np.arange(len(case.planted))}
    for method, X, y, options, weights in case.steps:
        if method == "fit":
            clf.fit(X, y, sample_weight=weights)
        elif method == "fit_stream":
            source = streams.open(X, y, weight=weights, block_size=options["block_size"])
            clf.fit_stream(source, passes=options["passes"])
        elif method == "partial_fit":
            clf.partial_fit(X, y, sample_weight=weights, **(options or known))
        else:
            each = np.ones(y.size) if weights is None else weights
            for row, label, w in zip(dense(X), y, each, strict=True):
                clf.learn_one(row, label, w=w, **known)
                known = {}
        known = {}
    return clf


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


# ----------------------------------------------------------------------------------------- margins
class Demands(NamedTuple):
    """What a margin is the least of: ``signs[k] . outputs[rows[k]]``, for each k.

    There is a sign for each weight vector. Intercepts decide between two sides, own and rival.
    """

    rows: np.ndarray
    signs: np.ndarray
    own: np.ndarray
    rival: np.ndarray

    def least(self, values, free):
        """The least of the values; with ``free`` intercepts, after the best ones were added.

        These lift the values of some sides at the expense of others: the sum along a cycle of sides
        stays what it is, and all can be lifted to the lowest mean along a cycle.
        """
        if not free:
            return values.min()
        sides = int(max(self.own.max(), self.rival.max())) + 1
        table = np.full((sides, sides), np.inf, dtype=LONG)
        np.minimum.at(table, (self.own, self.rival), values)
        ways = [(cycle, np.roll(cycle, 1)) for cycle in cycles(sides)]
        return min(table[way].sum() / len(way[0]) for way in ways)


@cache
def cycles(sides):
    """All ways around some of the sides."""
    some = (each for size in range(2, sides + 1) for each in combinations(range(sides), size))
    return [[first, *order] for first, *rest in some for order in permutations(rest)]


def one_against_rest(is_own):
    """The demands on one weight vector."""
    own = is_own.astype(int)
    return Demands(np.arange(own.size), (2.0 * own - 1.0)[:, None], own, 1 - own)


def all_together(y, classes):
    """The demands on one weight vector for each class: leads over all rivals."""
    rows, rival = np.divmod(np.arange(y.size * classes), classes)
    rows, rival = rows[rival != y[rows]], rival[rival != y[rows]]
    return Demands(rows, np.eye(classes)[y[rows]] - np.eye(classes)[rival], y[rows], rival)


class Vectors:
    """Rows as vectors; weights are measured by the norm that is dual to the p-norm."""

    def __init__(self, F, p):
        self.F, self.q = F, p / (p - 1.0)

    def look(self, W):
        """Outputs, how far they may be off, and the length of the weights (at least)."""
        extent, largest = np.abs(W) @ np.abs(self.F).T, np.abs(W).max()
        length = largest * ((np.abs(W) / largest) ** self.q).sum() ** (LONG(1) / self.q)
        return W @ self.F.T, 4 * ROUNDING * (self.F.shape[1] + 4) * extent, length

    def candidates(self, demands, free):
        """Weights near the best; in other norms coordinates get longer as they turn out useful."""
        F = (self.F / max(np.abs(self.F).max(), TINY)).astype(float)
        F, units = F - F.mean(axis=0) if free else F, np.ones(F.shape[1])
        for _ in range(SEARCH_STEPS if self.q < 2.0 else 1):
            W = nearest(F * units, demands, free) @ (F * units) * units
            yield W
            sizes = np.sqrt((W * W).sum(axis=0))
            units = (sizes / max(sizes.max(), TINY) + 1e-9) ** (1.0 - self.q / 2.0)


class Gram:
    """Rows by their kernel values; weights are coefficients of rows."""

    def __init__(self, K):
        self.K = K

    def look(self, W):
        outputs, extent = W @ self.K, np.abs(W) @ np.abs(self.K)
        error = 8 * ROUNDING * (len(self.K) + 8) * extent
        square = (outputs * W + 2 * error * np.abs(W)).sum()
        return outputs, error, np.sqrt(max(square, LONG(0)))

    def candidates(self, demands, free):
        K = (self.K / max(np.diagonal(self.K).max(), TINY)).astype(float)
        values, vectors = np.linalg.eigh(K)
        F = vectors * np.sqrt(np.maximum(values, 0.0))
        W = nearest(F - F.mean(axis=0) if free else F, demands, free)
        yield W - W.mean(axis=1, keepdims=True) if free else W


def nearest(F, demands, free):
    """Coefficients of rows whose sum is, in the hull of all demands, nearest to the origin.

    The minimiser of ``|Z'a|**2 + (sum a - 1)**2`` over a >= 0 is along it. An intercept is one more
    coordinate, so long that its weight costs hardly anything.
    """
    if free:
        F = np.column_stack([F, np.full(len(F), 1e3 * np.linalg.norm(F, axis=1).max())])
    Z = (demands.signs[:, :, None] * F[demands.rows][:, None, :]).reshape(demands.rows.size, -1)
    unit, a = np.abs(Z).max(), np.ones(len(Z))
    with suppress(RuntimeError):  # it may not come to an end
        for _ in range(3):  # in the units of the last solution, far shorter than rows may be
            if unit > 0.0:
                a, _ = nnls(np.vstack([Z.T / unit, np.ones(len(Z))]), np.eye(Z.shape[1] + 1)[-1])
                unit = np.linalg.norm(Z.T @ a) / max(a.sum(), TINY)
    W = np.zeros((demands.signs.shape[1], len(F)))
    np.add.at(W.T, demands.rows, a[:, None] * demands.signs)
    return W


def attained(space, W, demands, free):
    """The margin of these weights, at least; with the best intercepts if they are ``free``."""
    if not (np.isfinite(W).all() and np.any(W)):
        return -np.inf
    outputs, error, length = space.look((W / np.abs(W).max()).astype(LONG))
    values = demands.signs * outputs.T[demands.rows]
    values = (values - np.abs(demands.signs) * error.T[demands.rows]).sum(axis=1)
    return demands.least(values, free) / length if length > 0 else -np.inf


# ---------------------------------------------------------------------------------------- the check
def sample_weight_of(clf, step):
    """The weights of the rows of a step, with those of their classes."""
    sample_weight = np.ones(step.y.size) if step.weights is None else step.weights
    of_classes = clf.class_weight or {}
    return sample_weight * np.array([of_classes.get(int(label), 1.0) for label in step.y])


def kernel_values(kernel, X):
    """In extended precision."""
    if kernel.name == "rbf":
        return np.exp(-LONG(kernel.gamma) * ((X[:, None] - X) ** 2).sum(axis=2))
    if kernel.name == "laplacian":
        return np.exp(-LONG(kernel.gamma) * abs(X[:, None] - X).sum(axis=2))
    return (LONG(kernel.gamma) * (X @ X.T) + LONG(kernel.coef0)) ** int(kernel.degree)


class Question:
    """What the certificate of a learner is about: the rows of the last fit and those after it.

    A stream goes on with the bounds of the rows before, unless ``tol`` measures its own margins.
    """

    def __init__(self, case):
        self.case, self.clf = case, case.learner
        anew = ["fit"] if getattr(self.clf, "tol", None) is None else ["fit", "fit_stream"]
        fits = [n for n, step in enumerate(case.steps) if step.method in anew]
        steps, width = case.steps[max(fits, default=0) :], case.steps[-1].X.shape[1]
        rows = [np.pad(dense(each.X), ((0, 0), (0, width - each.X.shape[1]))) for each in steps]
        sample_weight = np.concatenate([self.sample_weight(each) for each in steps])
        self.X = np.concatenate(rows).astype(LONG)[sample_weight > 0]
        labels = np.concatenate([each.y for each in steps])[sample_weight > 0]
        self.y, sample_weight = (
            np.searchsorted(self.clf.classes_, labels),
            sample_weight[sample_weight > 0],
        )
        self.soft, self.free = LONG(getattr(self.clf, "soft_margin", 0.0)), self.clf.fit_intercept
        self.private = np.sqrt(self.soft / sample_weight)
        # The weights of private coordinates are known after a fit that began anew, but those of
        # coordinates of several lengths only with a kernel.
        goes_on = getattr(self.clf, "warm_start", False) and len(case.steps) > 1
        self.whole = steps[-1].method == "fit" and not goes_on
        self.whole &= getattr(self.clf, "kernel", "linear") != "linear" or bool(
            (sample_weight == 1.0).all()
        )
        private = np.diag(self.private)
        if getattr(self.clf, "kernel", "linear") == "linear":
            F = np.hstack([self.X, private]) if self.soft > 0 else self.X
            self.space: Any = Vectors(F, getattr(state_of(self.clf).model, "p", 2.0))
            self.radius = np.sqrt((self.X**2).sum(axis=1).max())
        else:
            self.space = self.kernel_space(self.X, private**2)
            self.radius = np.sqrt(np.diagonal(self.space.K).max())

    def sample_weight(self, step):
        """The weights of its rows."""
        return sample_weight_of(self.clf, step)

    def kernel_space(self, X, private):
        """Of these rows, with what they have in common in private coordinates."""
        return Gram(kernel_values(state_of(self.clf).model.kernel, X) + private)

    def own(self):
        """A space, and the learner's weights in it, as far as they are known."""
        size, model = len(self.X), state_of(self.clf).model
        if getattr(self.clf, "kernel", "linear") == "linear":
            W = np.pad(self.clf.coef_, ((0, 0), (0, size if self.soft > 0 else 0)))
            if self.soft > 0 and self.whole:
                private = W[:, self.X.shape[1] :]
                if model.has_supports:
                    root = float(np.sqrt(self.soft))
                    np.add.at(private.T, self.clf.support_, root * self.clf.dual_coef_.T)
                else:
                    private[:] = model.weights()[:, self.X.shape[1] + 1 :]
            return self.space, W
        supports, coefs = dense(self.clf.support_vectors_).astype(LONG), self.clf.dual_coef_
        numbers = np.arange(size + len(supports))
        numbers[size:] = self.clf.support_ if self.whole else numbers[size:]
        everyone = np.concatenate([self.X, supports])
        squares = np.concatenate([self.private**2, np.full(len(supports), self.soft)])[numbers]
        space = self.kernel_space(everyone, (numbers[:, None] == numbers) * squares)
        return space, np.pad(coefs, ((0, 0), (size, 0)))

    def findings(self, certificate):
        """All that is wrong with a certificate."""
        classes, each = self.clf.classes_.size, certificate.classes or (certificate,)
        for c, mine in enumerate(each):
            which = slice(c, c + 1)
            demands = one_against_rest(self.y == (1 if classes == 2 else c))
            if classes > 2 and not certificate.classes:
                demands, which = all_together(self.y, classes), slice(None)
            found = [*self.below(mine, demands, which), *self.above(mine, demands, which)]
            yield from (Finding(kind, f"class {c} of {classes}: {text}") for kind, text in found)

    def below(self, certificate, demands, which):
        """Margins that the bound is below."""
        space, W = self.own()
        margins = {"its own": attained(space, W[which], demands, self.free)}
        if getattr(self.clf, "kernel", "linear") == "linear":
            planted = self.case.planted[self.clf.classes_, : self.X.shape[1]]
            planted = planted[1:] if len(planted) == 2 else planted[which]
            planted = np.pad(planted, ((0, 0), (0, self.space.F.shape[1] - planted.shape[1])))
            margins["planted"] = attained(self.space, planted, demands, self.free)
        if certificate.bound < np.inf:
            near = self.space.candidates(demands, self.free)
            best = max(attained(self.space, each, demands, self.free) for each in near)
            margins["near the best"] = best
        for name, margin in margins.items():
            if not margin <= certificate.bound * (1 + LONG(TOLERANCE)):
                yield "bound", f"{certificate.bound!r} is below {margin!r}, {name}"

    def above(self, certificate, demands, which):
        """The margin that it states, if that is above the one that there is."""
        if not certificate.margin > 0.0 or (self.soft > 0 and not self.whole):
            return
        space, W = self.own()
        largest = LONG(np.abs(W[which]).max())
        if not largest > 0:
            yield "margin", f"{certificate.margin!r}, but all weights are 0"
            return
        outputs, _, length = space.look(W[which] / largest)
        outputs = outputs + (self.clf.intercept_[which] / largest)[:, None]
        values = (demands.signs * outputs.T[demands.rows]).sum(axis=1)
        margin = demands.least(values, False) / length
        slack = MARGIN_TOLERANCE * abs(margin) + MARGIN_TOLERANCE_PER_RADIUS * self.radius
        if state_of(self.clf).model.has_supports:  # it knows kernel values only so exactly
            kernel = state_of(self.clf).model.kernel
            most = kernel.gamma * (self.X**2).sum(axis=1).max() if kernel.name == "rbf" else 0.0
            mass = np.abs(self.clf.dual_coef_[which] / largest).sum() / length
            lost = np.finfo(kernel.dtype).eps * (16 + 8 * most) * self.radius**2 * mass
            slack += lost + abs(margin) * lost * mass
        if not certificate.margin <= margin + slack:
            yield "margin", f"{certificate.margin!r} is above {margin!r}"


class Objectives:
    """The same for `MaxMargin` with a soft margin: its certificate is about values of an objective.

        P(w, b) = |w|^2 / 2 + 1 / (2 lambda) sum_i s_i loss(1 - y_i (w.x_i + b))

    Weights are coefficients of rows, given by their kernel values. With an intercept, rows are
    measured from their mean: that changes nothing but the intercept.
    """

    def __init__(self, case):
        self.clf, step = case.learner, case.steps[-1]
        X = dense(step.X).astype(LONG)
        self.linear, self.free = (
            getattr(self.clf, "kernel", "linear") == "linear",
            self.clf.fit_intercept,
        )
        self.origin = X.mean(axis=0) if self.linear and self.free else np.zeros(X.shape[1], LONG)
        self.X, self.labels = X - self.origin, step.y
        kernel = None if self.linear else state_of(self.clf).model.kernel
        self.K = self.X @ self.X.T if self.linear else kernel_values(kernel, self.X)
        self.weight = sample_weight_of(self.clf, step) / (2 * LONG(self.clf.soft_margin_))
        self.squared = self.clf.loss == "squared_hinge"

    def value(self, signs, outputs, square, errors):
        """Not more and not less than the objective: each output may be off by its error."""
        lacking = 1 - signs * outputs
        low, high = (np.maximum(lacking + each, 0) for each in (-errors, errors))
        if self.squared:
            low, high = low**2, high**2
        more = 8 * ROUNDING * (lacking.size + 8)
        least = square[0] / 2 + self.weight @ low * (1 - more)
        return least, square[1] / 2 + self.weight @ high * (1 + more)

    def of_coefficients(self, signs, a, b):
        """The same for ``w = sum_i a_i phi(x_i)``."""
        a, b = a.astype(LONG), LONG(b)
        outputs, unit = self.K @ a, 8 * ROUNDING * (a.size + 8)
        extent = np.abs(self.K) @ np.abs(a)
        square, lost = a @ outputs, unit * (np.abs(a) @ extent)
        errors = unit * (extent + abs(b))
        return self.value(signs, outputs + b, (square - lost, square + lost), errors)

    def own(self, signs, c):
        """The value that the learner has reached."""
        b = LONG(self.clf.intercept_[c])
        if not self.linear:
            a = np.zeros(signs.size)
            a[self.clf.support_] = self.clf.dual_coef_[c]
            return self.of_coefficients(signs, a, b)
        w = self.clf.coef_[c].astype(LONG)
        unit, extent = 8 * ROUNDING * (w.size + 8), np.abs(self.X + self.origin) @ np.abs(w)
        square, outputs = w @ w, (self.X + self.origin) @ w + b
        return self.value(signs, outputs, (square, square * (1 + unit)), unit * (extent + abs(b)))

    def near_the_best(self, signs):
        """The lowest value that is known, at most."""
        there = np.flatnonzero(self.weight > 0)
        K, u, y = self.K[np.ix_(there, there)], self.weight[there], signs[there]
        own = np.diag(1 / (2 * u)) if self.squared else np.zeros(K.shape, LONG)
        centered = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean() if self.free else K
        # In units in which the largest coefficient, or kernel value, is 1.
        unit = 1 / max(np.diagonal(centered + own).max(), TINY) if self.squared else u.max()
        caps = np.full(u.size, np.inf) if self.squared else (u / unit).astype(float)
        given = (unit * (centered + own)).astype(float)
        found = [np.zeros(u.size), *dual_points(given, y, caps, self.free)]
        values = []
        for alphas in found:
            a = np.zeros(signs.size, LONG)
            a[there] = unit * alphas * y
            b = self.best_intercept(self.K[there] @ a, y, u) if self.free else LONG(0)
            values.append(self.of_coefficients(signs, a, b)[1])
        return min(values)

    def best_intercept(self, outputs, y, u):
        """Given the outputs without one."""
        edges = np.unique(y - outputs)
        if not self.squared:
            losses = np.maximum(1 - y * (outputs + edges[:, None]), 0) @ u
            return edges[np.argmin(losses)]
        low, high = edges[0], edges[-1]
        for _ in range(80):
            b = (low + high) / 2
            slope = -(u * y) @ np.maximum(1 - y * (outputs + b), 0)
            low, high = (b, high) if slope < 0 else (low, b)
        return (low + high) / 2

    def findings(self, certificate):
        """All that is wrong with a certificate."""
        classes, each = self.clf.classes_.size, certificate.classes or (certificate,)
        for c, mine in enumerate(each):
            own = self.clf.classes_[c if classes > 2 else 1]
            signs = np.where(self.labels == own, 1.0, -1.0)
            (least, most), near = self.own(signs, c), self.near_the_best(signs)
            if not mine.margin <= self.stated(least) * (1 + LONG(TOLERANCE)):
                yield Finding("margin", f"class {c}: {mine.margin!r} above {self.stated(least)!r}")
            for name, value in (("its own", most), ("near the best", near)):
                if not mine.bound * (1 + LONG(TOLERANCE)) >= self.stated(value):
                    text = f"class {c}: {mine.bound!r} is below {self.stated(value)!r}, {name}"
                    yield Finding("bound", text)

    def stated(self, value):
        """As certificates state it."""
        if not value > 0:
            return LONG(np.inf)
        return 1 / np.sqrt(2 * value) if self.squared else 1 / (2 * value)


class JointObjectives(Objectives):
    """The same for several classes together: pairs of rows and rivals take the place of rows.

    P(W, b) = sum_c |w_c|^2 / 2 + 1 / (4 lambda) sum_i s_i sum_c max(0, 1 - (f_y - f_c)(x_i))^2
    """

    def __init__(self, case):
        super().__init__(case)
        classes = self.clf.classes_.size
        own = self.labels[:, None] == self.clf.classes_
        self.rows, rivals = np.nonzero(~own)
        self.signs = own[self.rows].astype(LONG) - np.eye(classes)[rivals]
        self.weight = self.weight[self.rows] / 2

    def of_outputs(self, outputs, square, errors):
        """The value of outputs of shape (rows, classes), each of which may be off by its error."""
        leads = (self.signs * outputs[self.rows]).sum(axis=1)
        errors = (np.abs(self.signs) * errors[self.rows]).sum(axis=1)
        return self.value(1, leads, square, errors)

    def of_pairs(self, alphas, b):
        """The value of ``w_c = sum of alphas * signs_c * phi(x)`` over all pairs."""
        a = np.zeros((self.labels.size, b.size), LONG)
        np.add.at(a, self.rows, alphas.astype(LONG)[:, None] * self.signs)
        return self.of_all(a, b)

    def of_all(self, a, b):
        outputs, unit = self.K @ a, 8 * ROUNDING * (a.size + 8)
        extent = np.abs(self.K) @ np.abs(a)
        square, lost = (a * outputs).sum(), unit * (np.abs(a) * extent).sum()
        errors = unit * (extent + np.abs(b))
        return self.of_outputs(outputs + b, (square - lost, square + lost), errors)

    def own(self):
        b = self.clf.intercept_.astype(LONG)
        if not self.linear:
            a = np.zeros((self.labels.size, b.size), LONG)
            a[self.clf.support_] = self.clf.dual_coef_.T
            return self.of_all(a, b)
        W = self.clf.coef_.astype(LONG)
        unit, X = 8 * ROUNDING * (W.size + 8), self.X + self.origin
        square, errors = (W * W).sum(), unit * (np.abs(X) @ np.abs(W).T + np.abs(b))
        return self.of_outputs(X @ W.T + b, (square, square * (1 + unit)), errors)

    def near_the_best(self):
        there, rows = np.flatnonzero(self.weight > 0), self.rows
        E = self.signs[there]
        K = self.K[np.ix_(rows[there], rows[there])] * (E @ E.T)
        system = K + np.diag(1 / (2 * self.weight[there]))
        level = self.K.diagonal().max() if self.free else LONG(0)
        unit = 1 / max(np.diagonal(system).max() + 2 * level, TINY)
        values, zero = [], np.zeros(self.rows.size, LONG)
        found = [(zero[: there.size], np.zeros(E.shape[1], LONG))]
        with suppress(np.linalg.LinAlgError, RuntimeError):
            whole = (unit * (system + level * (E @ E.T))).astype(float)
            L = np.linalg.cholesky(whole)
            alphas = unit * nnls(L.T, np.linalg.solve(L, np.ones(there.size)))[0]
            found.append((alphas, level * (alphas @ E)))
            active = alphas > 1e-9 * alphas.max(initial=0.0)
            sides = np.ones(active.sum() + E.shape[1] * self.free)
            sides[active.sum() :] = 0.0
            matrix = (unit * system[np.ix_(active, active)]).astype(float)
            if self.free:
                F = E[active].astype(float)
                matrix = np.block([[matrix, F], [F.T, np.zeros(2 * (E.shape[1],))]])
            solved = np.linalg.lstsq(matrix, sides, rcond=None)[0]
            exact, b = np.zeros(there.size), np.zeros(E.shape[1])
            exact[active] = unit * solved[: active.sum()].clip(0.0)
            b[:] = solved[active.sum() :] if self.free else 0.0
            found.append((exact, b))
        for alphas, b in found:
            everywhere = zero.copy()
            everywhere[there] = alphas
            values.append(self.of_pairs(everywhere, np.asarray(b, LONG))[1])
        return min(values)

    def findings(self, certificate):
        (least, most), near = self.own(), self.near_the_best()
        if not certificate.margin <= self.stated(least) * (1 + LONG(TOLERANCE)):
            yield Finding("margin", f"{certificate.margin!r} above {self.stated(least)!r}")
        for name, value in (("its own", most), ("near the best", near)):
            if not certificate.bound * (1 + LONG(TOLERANCE)) >= self.stated(value):
                text = f"{certificate.bound!r} is below {self.stated(value)!r}, {name}"
                yield Finding("bound", text)


def dual_points(K, y, caps, free):
    """Coefficients of rows near the best ones, which are from 0 to the caps."""
    if free:
        machine = SVC(kernel="precomputed", C=1.0 if np.isfinite(caps).all() else 1e15, tol=1e-9)
        machine.set_params(max_iter=100_000)
        try:
            machine.fit(K, y, np.where(np.isfinite(caps), caps, 1.0))
        except ValueError:  # it did not come to finite coefficients
            return
        alphas = np.zeros(y.size)
        alphas[machine.support_] = np.abs(machine.dual_coef_[0])
    else:
        alphas, outputs = np.zeros(y.size), np.zeros(y.size)
        for _ in range(100):
            for i in range(y.size):
                step = (1.0 - y[i] * outputs[i]) / max(K[i, i], TINY)
                after = min(max(alphas[i] + step, 0.0), caps[i])
                outputs += (after - alphas[i]) * y[i] * K[i]
                alphas[i] = after
    yield alphas
    # Those between the limits are the solution of a linear system.
    between = np.flatnonzero((alphas > 1e-9 * np.minimum(caps, 1.0)) & (alphas < (1 - 1e-9) * caps))
    fixed = alphas * y
    fixed[between] = 0.0
    system = np.pad(K[np.ix_(between, between)], (0, int(free)), constant_values=1.0)
    sides = y[between] - K[between] @ fixed
    if free:
        system[-1, -1], sides = 0.0, np.append(sides, -fixed.sum())
    fixed[between] = np.linalg.lstsq(system, sides, rcond=None)[0][: between.size]
    yield np.clip(fixed * y, 0.0, caps)


def question(case):
    """What the certificate of a case is about."""
    clf = case.learner
    if not isinstance(clf, maxmargin.MaxMargin) or clf.soft_margin_ == 0:
        return Question(case)
    joint = clf.multiclass == "joint" and clf.classes_.size > 2
    return JointObjectives(case) if joint else Objectives(case)


def check(case):
    """Findings, and the reason if the learner refuses."""
    try:
        certificate = learn(case).certificate_
    except Exception as error:
        if isinstance(error, ValueError) and REFUSALS.search(str(error)):
            return [], str(error)
        return [Finding("exception", traceback.format_exc())], ""
    return list(question(case).findings(certificate)), ""


def check_number(number, seed, few=(), only=""):
    """The number, what was found in that case, and why it was refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return number, *check(draw_case(np.random.default_rng([seed, number]), few, only))


def description(number, seed, only=""):
    """The case, to the bit."""
    case = draw_case(np.random.default_rng([seed, number]), only=only)
    lines = [f"1 --seed {seed} --first {number}: {' '.join(repr(case.learner).split())}"]
    for method, X, y, options, weights in case.steps:
        kind = f"{type(X).__name__} {X.dtype}"
        lines += [f"  {method} {options}: {kind} {dense(X).tolist()}, {y.tolist()}"]
        lines += [] if weights is None else [f"    weights {weights.tolist()}"]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first fit")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", default="", help="the name of a learner, such as MaxMargin")
    parser.add_argument("--strict", action="store_true", help="fail by stated margins too")
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.count)
    found, refused, began = Counter(), Counter(), time.monotonic()
    # Matrices are so small that further threads of BLAS only wait for each other.
    with get_context("spawn").Pool(given.processes, threadpool_limits, (1,)) as pool:
        task = partial(check_number, seed=given.seed, only=given.only)
        results = pool.imap_unordered(task, numbers, 20)
        for done, (number, findings, refusal) in enumerate(results, start=1):
            if refusal:
                refused[REFUSALS.search(refusal)[0]] += 1
            if findings:
                found.update({each.kind for each in findings})
                print(description(number, given.seed, given.only))
                print("\n".join(f"  {kind}: {text}" for kind, text in findings), flush=True)
            if sys.stderr.isatty():
                rate = done / (time.monotonic() - began)
                print(f"\r{done:,} fits, {rate:.0f} a second", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    rate, learned = given.count / (time.monotonic() - began), given.count - refused.total()
    print(f"{given.count:,} fits, {rate:.1f} a second, {learned:,} learned; found: {dict(found)}")
    for reason, times in refused.most_common():
        print(f"{times:6} refused: {reason}")
    return int(bool(found["bound"] + found["exception"] + given.strict * found["margin"]))


if __name__ == "__main__":
    sys.exit(main())
