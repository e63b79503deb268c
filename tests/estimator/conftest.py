import numpy as np
import pytest
from sklearn.utils import validation


class Table(np.ndarray):
    """An array whose columns have names."""

    names: np.ndarray


@pytest.fixture
def table(monkeypatch):
    """Makes arrays whose names scikit-learn sees; pandas need not be installed for that."""
    monkeypatch.setattr(validation, "_get_feature_names", lambda X: getattr(X, "names", None))

    def made(values, names="abcdef"):
        named = np.asarray(values).view(Table)
        named.names = np.array(list(names), dtype=object)
        return named

    return made
