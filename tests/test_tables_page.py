"""The page about tables, and the first example about streams: they run, and say what is so."""

import os
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the documentation is not installed")


def examples(page):
    text = (DOCS / page).read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def has_electricity():
    folder = Path(os.environ.get("MAXMARGIN_DATA", "/nowhere"))
    return (folder / "electricity" / "elecNormNew.arff.gz").exists()


def test_tables(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    names = {}
    first, second = examples("tables.md")
    exec(compile(first, "tables.md", "exec"), names)
    assert names["clf"].recipe_.columns_[0] == {
        "name": "age",
        "kind": "number",
        "note": "",
        "values": 4,
        "missing": 1,
    }
    if has_electricity():
        exec(compile(second, "tables.md", "exec"), names)


def test_electricity_as_printed(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    if not has_electricity():
        pytest.skip("the data are not here")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(examples("streams.md")[0], "streams.md", "exec"), names)
    assert names["reports"][0].accuracy >= 0.92
