"""The example of CONTRIBUTING.md runs: its reference, and the learner that is held against it."""

from __future__ import annotations

import importlib.util
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import reference

from maxmargin.datasets import make_separable

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not installed")


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The namespace of the reference, and the class of the learner."""
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
    return plain["crammer_singer_mira"], module.CrammerSingerMIRA


def test_the_learner_of_the_example_is_its_reference(example):
    expected_of, learner = example
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 5))
    y = np.where(X @ random.normal(size=5) + 0.3 * random.normal(size=200) > 0, 1.0, -1.0)
    for limit in (1.0, 0.01):
        clf = learner(limit=limit, fit_intercept=False)
        clf.partial_fit(X, y, classes=[-1.0, 1.0])
        expected = expected_of(X, y, limit=limit)
        np.testing.assert_allclose(clf.coef_[0], expected.w, rtol=1e-9)
        assert 0 < clf.n_updates_ == expected.updated.sum()


def test_fit_claims_no_more_than_its_certificate_proves(example):
    """The rule is content with a margin of 0, up to rounding: that is no proof of anything."""
    _, learner = example
    stuck = 0
    for seed in range(12):
        X, y = make_separable(1000, 20, gap=0.5, random_state=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clf = learner(random_state=0).fit(X, y)
        messages = [str(warning.message) for warning in caught]
        assert clf.certificate_.bound >= 0.5  # which the rows have
        for message in messages:
            assert "the data are not separable" not in message.replace("if the data", "")
        stuck += any("no update left" in message for message in messages)
    assert stuck > 0
