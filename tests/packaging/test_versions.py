"""Files that state versions agree."""

import re
from pathlib import Path

import maxmargin
from maxmargin.core.numba_backend.contract import TESTED

ROOT = Path(__file__).parents[2]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_citation_and_changelog_are_about_this_version():
    assert f"\nversion: {maxmargin.__version__}\n" in read("CITATION.cff")
    assert f"\n## {maxmargin.__version__}\n" in read("CHANGELOG.md")


def test_the_lowest_versions_are_those_that_are_allowed():
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)$", read("constraints/lowest.txt"), re.MULTILINE))
    # Benchmarks and the site are made with the newest.
    text = re.sub(r"^(bench|docs) = \[.*?\]$", "", read("pyproject.toml"), flags=re.M | re.S)
    allowed = dict(re.findall(r'"([\w-]+)>=([\d.]+)', text))
    assert allowed.keys() >= {"numpy", "typer", "matplotlib", "pyarrow", "pytest"}
    for name, lowest in allowed.items():
        numbers = pinned[name].split(".")
        assert numbers[: lowest.count(".") + 1] == lowest.split("."), name


def test_versions_of_numba_are_tested_from_the_lowest_that_is_allowed():
    first, beyond = TESTED
    assert '"numba>={}.{}",'.format(*first) in read("pyproject.toml")
    assert "{}.{} to {}.{}".format(*first, beyond[0], beyond[1] - 1) in read("docs/start.md")
