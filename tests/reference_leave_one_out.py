"""Leave-one-out outputs by fits without each row, in plain NumPy; and those of the library."""

import numpy as np
from scipy import sparse

from maxmargin.core.rows import Tail
from maxmargin.kernels.products import Products
from maxmargin.models.kernel_model import kernel_for
from maxmargin.models.linear_model import as_rows
from maxmargin.models.spec import KernelSpec
from maxmargin.solvers.kernel_oracle import KernelRows
from maxmargin.solvers.linear_oracle import HostPasses, LinearRows
from maxmargin.solvers.newton import Task, approach, finish, silent
from maxmargin.solvers.regularization_path import Posed
from maxmargin.training import inputs


# ------------------------------------------------------------------------------------ the reference
def minimum(X, y, s, penalty, intercept, states=None):
    """Weights with the intercept last, by plain Newton steps; or those of given active rows."""
    rows = np.column_stack([X, np.full(len(y), float(intercept))])
    ridge = np.append(np.full(X.shape[1], penalty), 0.0 if intercept else 1.0)
    theta = np.zeros(rows.shape[1])

    def objective(theta):
        slack = np.maximum(0.0, 1.0 - y * (rows @ theta))
        return 0.5 * ridge @ theta**2 + 0.5 * s @ slack**2

    for _ in range(200):
        active = y * (rows @ theta) < 1.0 if states is None else states
        A = (rows[active].T * s[active]) @ rows[active] + np.diag(ridge)
        # Without active rows nothing says what the intercept is.
        goal = np.linalg.lstsq(A, rows[active].T @ (s * y)[active], rcond=None)[0]
        if states is not None:
            return goal
        t = 1.0
        while objective(theta + t * (goal - theta)) > objective(theta) and t > 1e-12:
            t *= 0.5
        if np.allclose(theta + t * (goal - theta), theta, rtol=1e-13, atol=1e-13):
            return theta
        theta = theta + t * (goal - theta)
    return theta


def refitted(X, y, s, penalty, intercept, keep_states=False):
    """``y f(x)`` of each row by the minimum of the others, and which rows are active with all."""
    rows = np.column_stack([X, np.full(len(y), float(intercept))])
    theta, out = minimum(X, y, s, penalty, intercept), np.empty(len(y))
    active = y * (rows @ theta) < 1.0
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        states = active[rest] if keep_states else None
        without = minimum(X[rest], y[rest], s[rest], penalty, intercept, states)
        out[i] = y[i] * (rows[i] @ without)
    return np.where(active | ~np.bool_(keep_states), out, y * (rows @ theta)), active


# ----------------------------------------------------------------------------------------- the code
def posed(X, codes, s, penalty, intercept=True, tol=1e-9):
    classes = int(codes.max()) + 1
    is_sparse = sparse.issparse(X)
    rows = as_rows(X, Tail(float(intercept), 0.0))
    data = LinearRows(
        passes=HostPasses(rows, inputs.as_targets(codes.astype(np.int32), classes), s),
        sample_weight=s,
        width=X.shape[1],
        filled=X.nnz / X.shape[0] if is_sparse else X.shape[1],
        intercept=intercept,
        radius=float(np.sqrt((X.multiply(X) if is_sparse else X * X).sum(axis=1).max())),
    )
    return Posed(data, Task(penalty, tol, 100), 1 if classes == 2 else classes, classes > 2)


def left_out(X, codes, s, penalty, intercept=True):
    return left_out_of(posed(X, codes, s, penalty, intercept))


def left_out_of(problems):
    oracle = problems.data.oracle(problems.task, slice(0, problems.number))
    start = approach(oracle, problems.task)
    finish(oracle, *start, silent)
    return oracle.left_out(*start, np.arange(oracle.everything.size))[0]


def features_of(K):
    """Rows with these products."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(values.clip(min=0.0))


def kernel_left_out(K, codes, s, penalty, intercept=True):
    products, classes = Products(), np.unique(codes)
    spec = KernelSpec(kernel="precomputed")
    kernel, points = kernel_for(spec, K, products, whole=True, exact=True)
    own = codes[:, None] == (classes if classes.size > 2 else classes[1:])
    data = KernelRows(kernel, points, products, np.where(own, 1.0, -1.0), s, intercept, 1e8)
    return left_out_of(Posed(data, Task(penalty, 1e-9, 100), own.shape[1]))


def drawn(seed, n=40, d=4):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) + random.normal(size=d)
    y = np.where(X @ random.normal(size=d) + random.normal(size=n) > 0.0, 1.0, -1.0)
    y[:2] = -1.0, 1.0
    return X, y, random.choice([0.5, 1.0, 3.0], n)
