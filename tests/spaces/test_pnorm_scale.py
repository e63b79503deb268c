"""p-norm learners that shrink their weights for long: powers of what the lazy scale hides."""

from __future__ import annotations

import numpy as np

from maxmargin import ALMA
from maxmargin.datasets import make_r_of_k


def test_many_projections_do_not_overflow():
    # Each projection shrinks the scale and lets the stored weights grow; their ninth powers leave
    # the range of floating point long before the scale does.
    X, y = make_r_of_k(r=1, random_state=0)
    clf = ALMA(alpha=0.1, p=9.25, intercept_scaling="max", max_iter=300, random_state=0).fit(X, y)
    assert clf.n_updates_ > 60_000
    assert np.isfinite(clf.coef_).all()
