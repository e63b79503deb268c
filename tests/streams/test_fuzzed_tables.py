"""Whatever a table holds, in whatever format, it is read for what it says or refused by name."""

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

from campaigns.table_files import fuzz_tables, murmur
from extent import everything_or
from sklearn.feature_extraction import FeatureHasher

pytestmark = pytest.mark.usefixtures("few_objects")


def test_tables(tmp_path):
    count = everything_or(50, 150)
    done = fuzz_tables(count, 0, tmp_path)
    assert done["said"] > count / 2
    kinds = done["model"], done["guessed"], done["bad cell"], done["odd and refused"]
    assert min(kinds) > count / 30


def test_the_hash_of_the_reference_is_that_of_scikit_learn():
    keys = ["", "a", "name=value", "grüße", "x" * 17]
    hasher = FeatureHasher(2**20, input_type="string", alternate_sign=False)
    places = hasher.transform([[key] for key in keys]).indices.tolist()
    assert [murmur(key.encode(), 0) % 2**20 for key in keys] == places
