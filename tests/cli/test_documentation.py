"""The page about the command: does it name every command and option that it shows?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "command.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not installed")
def test_options_exist(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    shown = re.findall(r"^\$ .*?maxmargin (\w+) ([^|\n]*)", text, re.MULTILINE)
    assert {name for name, _ in shown} == {"fit", "predict", "evaluate", "info"}
    for name, arguments in shown:
        known = command(name, "--help")[1]
        for option in re.findall(r"(?<!\S)--[\w-]+", arguments):
            assert f"{option} " in known, (name, option)
