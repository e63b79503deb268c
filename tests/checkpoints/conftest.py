"""A file to learn from."""

import pytest
from streamed import noisy, svmlight_text


@pytest.fixture(scope="module")
def text():
    return svmlight_text(*noisy()).encode()


@pytest.fixture
def data(tmp_path, text):
    path = tmp_path / "rows.svm"
    path.write_bytes(text)
    return path
