"""What the experiments measure in their tiny form, once for all tests that look at it."""

import pytest


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """A folder in which cells that were measured are found again."""
    return tmp_path_factory.mktemp("tiny")
