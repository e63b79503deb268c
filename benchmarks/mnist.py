"""MNIST digits with a polynomial kernel: Table 3 of Zhao and Huang, against LIBSVM and the GEMM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks.harness import Comparison, Contender, Floor, Key, Report, Scale, race, wall_seconds
from benchmarks.passes import fit_quietly
from maxmargin import AMIRA
from maxmargin.datasets import load_mnist
from maxmargin.kernels import products

NAME = "mnist"
QUESTION = "How fast are the digits of MNIST learned with a polynomial kernel?"

KERNEL = {"kernel": "poly", "degree": 4, "gamma": 1.0 / 255.0**2, "coef0": 1.0}
SMALL = 10_000
OURS, THEIRS = "AMIRA(0.9), 4 passes", "LIBSVM, C = 10"


def learner(passes: int) -> AMIRA:
    return AMIRA(
        epsilon=0.9,
        multiclass="ovr",
        soft_margin=5e5,
        fit_intercept=False,
        max_iter=passes,
        random_state=0,
        **KERNEL,
    )


def run(scale: Scale) -> Report:
    try:
        X, y = load_mnist()
        X_test, y_test = load_mnist("test")
    except OSError as error:
        return Report(NAME, "no data", "s", {}, skipped={"all": str(error)})
    rows, small = scale.rows(y.size), scale.rows(SMALL)
    X, y = X[:rows], y[:rows]
    fit_quietly(learner(2), X[:500], y[:500])  # compile
    case, small_case = f"{rows:,} rows", f"{small:,} rows"
    values = race(
        [
            Contender(
                Key(small_case, OURS),
                lambda: wall_seconds(lambda: fit_quietly(learner(4), X[:small], y[:small])),
            ),
            Contender(
                Key(small_case, THEIRS),
                lambda: wall_seconds(lambda: SVC(C=10, **KERNEL).fit(X[:small], y[:small])),
            ),
        ],
        min(3, scale.rounds),
    )
    rate = gemm_rate(X)
    with counting_products() as counted:
        ours = wall_seconds(lambda: fit_quietly(learner(4), X, y))
        flops = counted()
    values[Key(case, OURS)] = [ours]
    svm = SVC(C=10, **KERNEL)
    theirs = wall_seconds(lambda: svm.fit(X, y))
    values[Key(case, THEIRS)] = [theirs]
    errors = {}
    for passes in (3, 4):
        clf = fit_quietly(learner(passes), X, y)
        errors[passes] = 100.0 * float(np.mean(clf.predict(X_test) != y_test))
    floors = [
        Floor("error after 3 passes, per cent", "<=", 1.75, [errors[3]]),
        Floor("error after 4 passes, per cent", "<=", 1.70, [errors[4]]),
        Floor(f"seconds, 4 passes, {case}", "<=", 60.0, [ours]),
        Floor(
            f"time of LIBSVM / ours, {small_case}",
            ">=",
            5.0,
            [
                b / a
                for a, b in zip(
                    values[Key(small_case, OURS)], values[Key(small_case, THEIRS)], strict=True
                )
            ],
        ),
        Floor(f"time of LIBSVM / ours, {case}", ">=", 10.0, [theirs / ours]),
        Floor("share of the GEMM rate", ">=", 0.5, [flops / ours / rate]),
    ]
    error, stored = "test error, %", "rows stored"
    quality = {
        Key(OURS, error): errors[4],
        Key(OURS, stored): float(clf.support_.size),
        Key(OURS, "% of the rate of a bare matrix product"): 100.0 * flops / ours / rate,
        Key(THEIRS, error): 100.0 * float(np.mean(svm.predict(X_test) != y_test)),
        Key(THEIRS, stored): float(svm.support_.size),
    }
    pairs = [
        Comparison(Key(which, OURS), Key(which, THEIRS), "LIBSVM", headline)
        for which, headline in ((small_case, ""), (case, "MNIST with a kernel"))
    ]
    data = f"{rows:,} rows of {X.shape[1]} features, 10 classes, kernel (x·x' / 255² + 1)⁴"
    how = "By the clock, on all cores; on all rows once. Quality is that after all rows."
    return Report(NAME, data, "s", values, floors, {}, how, pairs, quality)


def gemm_rate(X: np.ndarray) -> float:
    """Floating-point operations a second of a large product of float32 matrices."""
    some, others = np.ascontiguousarray(X[:512], np.float32), np.ascontiguousarray(X, np.float32)
    times = [wall_seconds(lambda: some @ others.T) for _ in range(6)]
    return 2.0 * some.size * others.shape[0] / float(np.median(times[1:]))


class counting_products:
    """Count the operations of all kernel values that are computed meanwhile."""

    def __enter__(self) -> Callable[[], float]:
        self._products, self._flops = products.inner_products, 0.0

        def counted(some: Any, others: Any, dtype: Any, out: Any = None) -> np.ndarray:
            self._flops += 2.0 * some.shape[0] * others.shape[0] * some.shape[1]
            return self._products(some, others, dtype, out)

        products.inner_products = counted
        return lambda: self._flops

    def __exit__(self, *_: object) -> None:
        products.inner_products = self._products
