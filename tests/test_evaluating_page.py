"""The page about evaluating: its examples run, one after another, and draw what they say."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "evaluating.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not installed")
def test_examples_run(tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.M)
    assert len(examples) == 5
    names = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    pyplot.close("all")
    pictures = {"stream.png", "margin.png", "weights.png"}
    assert {path.name for path in tmp_path.iterdir()} == pictures
    assert all((tmp_path / name).stat().st_size > 5000 for name in pictures)
