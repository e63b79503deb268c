"""The example of CONTRIBUTING.md runs: its reference, and the learner that is held against it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import reference

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not installed")
def test_the_learner_of_the_example_is_its_reference(tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 2
    plain = dict(vars(reference))
    exec(blocks[0], plain)
    path = tmp_path / "crammersingermira.py"
    path.write_text(blocks[1], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("crammersingermira", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "crammersingermira", module)
    spec.loader.exec_module(module)

    random = np.random.default_rng(0)
    X = random.normal(size=(200, 5))
    y = np.where(X @ random.normal(size=5) + 0.3 * random.normal(size=200) > 0, 1.0, -1.0)
    for limit in (1.0, 0.01):
        clf = module.CrammerSingerMIRA(limit=limit, fit_intercept=False)
        clf.partial_fit(X, y, classes=[-1.0, 1.0])
        expected = plain["crammer_singer_mira"](X, y, limit=limit)
        np.testing.assert_allclose(clf.coef_[0], expected.w, rtol=1e-9)
        assert 0 < clf.n_updates_ == expected.updated.sum()
