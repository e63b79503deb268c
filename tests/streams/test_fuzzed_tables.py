"""Whatever a table holds, in whatever format, it is read for what it says or refused by name."""

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

from campaigns.table_files import fuzz_tables, murmur
from sklearn.feature_extraction import FeatureHasher

pytestmark = pytest.mark.usefixtures("few_objects")


def test_tables(tmp_path):
    done = fuzz_tables(150, 0, tmp_path)
    assert done["said"] > 80
    assert min(done["model"], done["guessed"], done["bad cell"], done["odd and refused"]) > 5


def test_the_hash_of_the_reference_is_that_of_scikit_learn():
    keys = ["", "a", "name=value", "grüße", "x" * 17]
    hasher = FeatureHasher(2**20, input_type="string", alternate_sign=False)
    places = hasher.transform([[key] for key in keys]).indices.tolist()
    assert [murmur(key.encode(), 0) % 2**20 for key in keys] == places
