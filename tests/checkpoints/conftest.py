"""A file to learn from, and a disk that is quick."""

import os

import pytest
from streamed import noisy, svmlight_text


@pytest.fixture(scope="module")
def text():
    return svmlight_text(*noisy()).encode()


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch):
    """Nobody cuts the power during these tests."""
    monkeypatch.setattr(os, "fsync", lambda number: None)


@pytest.fixture
def data(tmp_path, text):
    path = tmp_path / "rows.svm"
    path.write_bytes(text)
    return path
