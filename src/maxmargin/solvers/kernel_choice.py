"""The parameters of a radial kernel, chosen by leave-one-out errors of a ridge regression.

The ridge regression of labels 1 and -1 minimises, for each problem,

    sum_i s_i (y_i - f(x_i))^2 + lambda |w|^2,        f(x) = w.phi(x) + b.

One eigendecomposition of the kernel matrix gives its leave-one-out outputs for all lambda. The
squared hinge loss differs for rows beyond their margin only, so widths and scales that suit one
loss suit the other, too.

Scales of columns are learned in rounds: column j of the standardized rows gets the scale

    s_j <- s_j sqrt(mean of (df / dx_j)^2)

over rows and problems, with the largest scale 1. A leave-one-out error does not know that a row
took part in its own scales, so folds choose between these and equal scales.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from maxmargin.core.numba_backend import Compiled
from maxmargin.kernels.functions import MOST_DENSE_VALUES, LaplacianKernel, RadialKernel
from maxmargin.kernels.products import PAIRWISE, Products, l1_distances
from maxmargin.solvers.blas_threads import one_thread
from maxmargin.solvers.kernel_oracle import sample_of

# Parameters are chosen on a random sample of so many rows.
MOST_ROWS = 1000
# Values of lambda; kernel values are at most 1.
PENALTIES = 10.0 ** np.arange(-3.5, 2.01, 0.5)
# Values of ``1 / gamma``, relative to the median distance; the search begins in the middle.
WIDTHS = 1.4 * 2.0 ** np.arange(-4, 5)
# Scales: rounds of learning, the smallest one, folds, and the fewest rows that they are tried on.
ROUNDS, SMALLEST_SCALE, FOLDS, FEWEST_ROWS = 2, 1e-3, 3, 30
# Slopes are averaged over as many rows as take so many multiplications, but at least over so many.
MOST_PRODUCTS, FEWEST_SLOPES = 2**28, 64
# Rounding leaves nothing of a smaller 1 - h.
SMALLEST_REMAINDER = 1e-10
# Columns that vary less, relative to their largest value, are constant but for rounding.
CONSTANT = 1e-14


class RidgeLabels(NamedTuple):
    """Labels of some rows.

    signs : 1 or -1, of shape (rows, problems)
    weights : of rows, above 0
    intercept : is there one?
    """

    signs: np.ndarray
    weights: np.ndarray
    intercept: bool

    def take(self, which: np.ndarray) -> RidgeLabels:
        return self._replace(signs=self.signs[which], weights=self.weights[which])

    def loss(self, outputs: np.ndarray) -> float:
        """The mean squared error."""
        errors = ((outputs - self.signs) ** 2).mean(axis=1)
        return float(self.weights @ errors / self.weights.sum())


class Ridge:
    """Ridge regressions on a kernel matrix K, for all lambda.

    With ``S = diag(s)`` the coefficients are ``S^(1/2) g`` for the solution g of
    ``(S^(1/2) K S^(1/2) + lambda I) g = S^(1/2) (y - b)``, and with an intercept g is orthogonal to
    the roots of s. So on that subspace, the eigenvectors of the matrix give all solutions.
    """

    def __init__(self, values: np.ndarray, targets: RidgeLabels) -> None:
        self.targets, self.roots = targets, np.sqrt(targets.weights)
        matrix = values * self.roots
        matrix *= self.roots[:, None]
        self.unit = self.roots / np.linalg.norm(self.roots) * targets.intercept
        line = matrix @ self.unit
        matrix -= np.outer(self.unit, line)
        matrix -= np.outer(line - (self.unit @ line) * self.unit, self.unit)
        found, self.vectors = linalg.eigh(matrix, overwrite_a=True, check_finite=False)
        self.squares = self.vectors**2
        self.eigenvalues = np.maximum(found, 0.0)
        sides = targets.signs * self.roots[:, None]
        self.constant = np.outer(self.unit, self.unit @ sides)
        self.parts = self.vectors.T @ (sides - self.constant)

    def left_out(self, penalty: float) -> np.ndarray:
        """The output for each row by the regression on all other rows."""
        shrunk = self.eigenvalues / (self.eigenvalues + penalty)
        fitted = self.vectors @ (shrunk[:, None] * self.parts) + self.constant
        remainders = 1.0 - self.squares @ shrunk - self.unit**2
        errors = self.targets.signs - fitted / self.roots[:, None]
        return self.targets.signs - errors / np.maximum(remainders, SMALLEST_REMAINDER)[:, None]

    def coefficients(self, penalty: float) -> np.ndarray:
        found = self.vectors @ (self.parts / (self.eigenvalues + penalty)[:, None])
        return found * self.roots[:, None]


def solved(
    values: np.ndarray, targets: RidgeLabels, penalty: float
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and intercepts of a ridge regression with one lambda."""
    system = values.copy()
    system[np.diag_indices(len(system))] += penalty / targets.weights
    sides = np.column_stack([targets.signs, np.ones(len(system))])
    found = linalg.solve(system, sides, assume_a="pos", overwrite_a=True, check_finite=False)
    wanted, ones = found[:, :-1], found[:, -1:]
    bias = targets.intercept * wanted.sum(axis=0) / ones.sum()
    return wanted - ones * bias, bias


class ChosenWidth(NamedTuple):
    """The best width for some distances.

    place : in `WIDTHS`
    loss : of rows that are left out
    coefs : of the rows, with lambda = ``penalty``
    """

    place: int
    gamma: float
    penalty: float
    loss: float
    values: np.ndarray
    coefs: np.ndarray


def typical(distances: np.ndarray) -> float:
    """The median distance between rows; the mean if most rows are equal."""
    between = distances[np.triu_indices(len(distances), 1)]
    middle = float(np.median(between)) or float(between.mean())
    return middle or 1.0


def best_width(
    distances: np.ndarray, targets: RidgeLabels, place: int = len(WIDTHS) // 2
) -> ChosenWidth:
    """The width and lambda whose leave-one-out loss is smallest, as the next widths have more."""
    middle, found = typical(distances), dict[int, ChosenWidth]()

    def tried(place: int) -> float:
        if place not in found:
            gamma = 1.0 / (WIDTHS[place] * middle)
            values = np.exp(-gamma * distances)
            ridge = Ridge(values, targets)
            losses = [targets.loss(ridge.left_out(each)) for each in PENALTIES]
            best = int(np.argmin(losses))
            coefs = ridge.coefficients(PENALTIES[best])
            given = gamma, float(PENALTIES[best]), losses[best], values, coefs
            found[place] = ChosenWidth(place, *given)
        return found[place].loss

    for step in (-1, 1):
        while 0 <= place + step < len(WIDTHS) and tried(place + step) < tried(place):
            place += step
    return found[place]


def chosen_gamma(
    kernel: RadialKernel, X: Any, targets: RidgeLabels, products: Products
) -> tuple[float, float]:
    """The gamma with the smallest leave-one-out loss on a sample of rows, and a lambda for it."""
    numbers = sample_of(targets.weights, MOST_ROWS)
    points = kernel.points(products.rows_here(X, numbers))
    with one_thread:
        distances = kernel.distances(points, PAIRWISE[kernel.pairwise])
        chosen = best_width(distances, targets.take(numbers))
    return chosen.gamma, chosen.penalty


# ------------------------------------------------------------------------------- scales of columns
class ColumnMoments(NamedTuple):
    """Weighted means and standard deviations of columns; 0 for those that are constant."""

    means: np.ndarray
    deviations: np.ndarray


def moments(X: Any, weights: np.ndarray, products: Products) -> ColumnMoments:
    """The moments of all columns, a block of rows at a time."""
    shares, width = weights / weights.sum(), X.shape[1]
    step = max(1, MOST_DENSE_VALUES // max(1, width))
    blocks = [slice(start, start + step) for start in range(0, X.shape[0], step)]
    means, squares, largest = np.zeros((3, width))
    for part in blocks:
        means += shares[part] @ products.rows_here(X, part)
    if sparse.issparse(X):
        rows = np.repeat(shares, np.diff(X.indptr))
        away = rows * (X.data - means[X.indices]) ** 2
        squares = np.bincount(X.indices, away, width)
        squares += (1.0 - np.bincount(X.indices, rows, width)).clip(min=0.0) * means**2
        largest = abs(X).max(axis=0).toarray().ravel()
    for part in [] if sparse.issparse(X) else blocks:
        block = products.rows_here(X, part)
        squares += shares[part] @ (block - means) ** 2
        largest = np.maximum(largest, abs(block).max(axis=0))
    deviations = np.sqrt(squares)
    return ColumnMoments(means, np.where(deviations > CONSTANT * largest, deviations, 0.0))


def automatic_kernel(
    X: Any, targets: RidgeLabels, products: Products
) -> tuple[LaplacianKernel, float]:
    """A laplacian kernel for rows as they are, and a lambda that suits it.

    Scales of columns are learned unless a dense sample of the rows would be too large.
    """
    means, deviations = moments(X, targets.weights, products)
    numbers = sample_of(targets.weights, MOST_ROWS)
    some, targets = products.rows_here(X, numbers), targets.take(numbers)
    center = None if sparse.issparse(X) else means
    scales = np.ones_like(means)
    kernel = LaplacianKernel(
        *(1.0, 1.0, 0.0, np.float64, center), scales=scales, deviations=deviations
    )
    with one_thread:
        if sparse.issparse(X) and some.shape[0] * X.shape[1] > MOST_DENSE_VALUES:
            chosen = best_width(kernel.distances(kernel.points(some), l1_distances), targets)
        else:
            rows = kernel.factors(some)
            scales, chosen = chosen_scales(rows.toarray() if sparse.issparse(X) else rows, targets)
    scales = np.where(deviations > 0.0, scales, 0.0)
    return replace(kernel, gamma=chosen.gamma, scales=scales), chosen.penalty


def chosen_scales(rows: np.ndarray, targets: RidgeLabels) -> tuple[np.ndarray, ChosenWidth]:
    """Learned or equal scales of standardized columns, whichever predicts better."""
    scales = np.ones(rows.shape[1])
    rounds = [(scales, best_width(l1_distances(rows, rows, float), targets))]
    if len(rows) < FEWEST_ROWS:
        return rounds[0]
    for _ in range(ROUNDS):
        scales, chosen = rounds[-1]
        scales = next_scales(rows, targets, scales, chosen)
        distances = l1_distances(rows * scales, rows * scales, float)
        rounds.append((scales, best_width(distances, targets, chosen.place)))
    losses = np.zeros(2)
    fold_of = np.random.default_rng(0).permutation(len(rows)) % FOLDS
    for k in range(FOLDS):
        losses += losses_of_fold(rows, targets, fold_of == k, [each for _, each in rounds])
    return rounds[-1] if losses[1] < losses[0] else rounds[0]


def losses_of_fold(
    rows: np.ndarray, targets: RidgeLabels, is_held: np.ndarray, rounds: list[ChosenWidth]
) -> np.ndarray:
    """Losses of held rows with equal and with learned scales, all fitted to the other rows."""
    known, held = targets.take(~is_held), targets.take(is_held)
    scales, losses = np.ones(rows.shape[1]), []
    for chosen in rounds:
        some = rows[~is_held] * scales
        distances = l1_distances(some, some, float)
        gamma = 1.0 / (WIDTHS[chosen.place] * typical(distances))
        values = np.exp(-gamma * distances)
        coefs, bias = solved(values, known, chosen.penalty)
        between = l1_distances(rows[is_held] * scales, some, float)
        losses.append(held.loss(np.exp(-gamma * between) @ coefs + bias))
        here = chosen._replace(gamma=gamma, values=values, coefs=coefs)
        scales = next_scales(rows[~is_held], known, scales, here)
    return np.array([losses[0], losses[-1]]) * held.weights.sum()


def next_scales(
    rows: np.ndarray, targets: RidgeLabels, scales: np.ndarray, chosen: ChosenWidth
) -> np.ndarray:
    """Scales times root mean squared slopes, the largest 1."""
    (size, width), problems = rows.shape, chosen.coefs.shape[1]
    most = max(FEWEST_SLOPES, MOST_PRODUCTS // (size * width * problems))
    numbers, squares = np.arange(0, size, -(-size // most)), np.zeros(width)
    coefs, slopes = np.ascontiguousarray(chosen.coefs.T), np.empty(width)
    add_squared_slopes(rows, chosen.values, coefs, targets.weights, numbers, slopes, squares)
    found = scales * scales * np.sqrt(squares)
    return np.maximum(found / (found.max() or 1.0), SMALLEST_SCALE)


@Compiled
def add_squared_slopes(  # type: ignore[no-untyped-def]
    rows, values, coefs, weights, numbers, slopes, squares
):
    """Add ``s_i (sum_k beta_k K_ik sign(x_ij - x_kj))^2`` for rows i to the squares of columns j.

    ``slopes`` is a buffer.
    """
    for n in range(numbers.size):
        i = numbers[n]
        for c in range(coefs.shape[0]):
            for j in range(slopes.size):
                slopes[j] = 0.0
            for k in range(rows.shape[0]):
                pull = coefs[c, k] * values[i, k]
                for j in range(slopes.size):
                    above = pull if rows[k, j] < rows[i, j] else 0.0
                    slopes[j] += above - (pull if rows[k, j] > rows[i, j] else 0.0)
            for j in range(slopes.size):
                squares[j] += weights[i] * slopes[j] ** 2
