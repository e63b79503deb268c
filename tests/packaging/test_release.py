"""What a release needs, and that its check notices what is missing."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

import maxmargin

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "src/maxmargin/__init__.py")


@pytest.fixture
def tree(tmp_path):
    """The files of a tree that can be released as 9.9.9."""
    for name in FILES:
        text = (ROOT / name).read_text("utf-8").replace(".example.invalid", ".example.org")
        text = text.replace(f'"{maxmargin.__version__}"', '"9.9.9"')
        text = text.replace(f"version: {maxmargin.__version__}\n", "version: 9.9.9\n")
        text = re.sub(r"^# Changelog\n\n## .*", "# Changelog\n\n## 9.9.9", text)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def problems(tree, tag):
    path = ROOT / ".ci" / "check_release.py"
    if not path.exists():
        pytest.skip("a source distribution has no .ci")
    spec = importlib.util.spec_from_file_location("check_release", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.problems(tree, tag))


def test_a_tree_that_is_ready_has_no_problem(tree):
    assert problems(tree, "v9.9.9") == []


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("pyproject.toml", ".example.org", ".example.invalid", "placeholders"),
        ("CITATION.cff", "9.9.9", "9.9.8", "CITATION.cff"),
        ("CHANGELOG.md", "9.9.9", "Unreleased", "CHANGELOG.md begins with 'Unreleased'"),
        ("src/maxmargin/__init__.py", "9.9.9", "9.9.10", "the tag is v9.9.9"),
    ],
)
def test_a_release_fails_on(tree, name, before, after, message):
    path = tree / name
    path.write_text(path.read_text("utf-8").replace(before, after, 1), "utf-8")
    assert any(message in problem for problem in problems(tree, "v9.9.9"))


def test_addresses_stand_in_one_place():
    """Whoever publishes the package changes them in pyproject.toml alone."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a repository")
    allowed = {"pyproject.toml", "tests/packaging/test_release.py", ".ci/check_release.py"}
    for name in set(listed.stdout.splitlines()) - allowed:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".cff", ".yml", ".txt", ".jinja"}:
            assert "example.invalid" not in path.read_text("utf-8"), name


def test_workflows_run_what_the_classifiers_say():
    yaml = pytest.importorskip("yaml")
    if not (ROOT / ".github").exists():
        pytest.skip("a source distribution has no .github")
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        found = yaml.safe_load(path.read_text("utf-8"))
        assert found["jobs"], path
        for job in found["jobs"].values():
            assert all(("run" in step) != ("uses" in step) for step in job["steps"])
            for step in job["steps"]:
                for script in re.findall(r"\.ci/\w+\.py", step.get("run", "")):
                    assert (ROOT / script).exists()
                for target in re.findall(r"^make ([\w-]+)", step.get("run", "")):
                    assert f"\n{target}:" in (ROOT / "Makefile").read_text("utf-8")
    checks = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text("utf-8"))
    tested = set(checks["jobs"]["test"]["strategy"]["matrix"]["python"])
    declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert set(declared) <= tested


def test_papers_are_cited_the_same_everywhere():
    """Titles and years in CITATION.cff, in the BibTeX of the docs, and in the paper's."""
    cff = (ROOT / "CITATION.cff").read_text("utf-8").split("references:")[1]
    wanted = list(
        zip(re.findall(r" title: (.+)", cff), re.findall(r" year: (\d+)", cff), strict=True)
    )
    assert len(wanted) == 5
    for name in ("docs/cite.md", "paper/paper.bib"):
        text = re.sub(r"[{}$]", "", (ROOT / name).read_text("utf-8"))
        for title, year in wanted:
            entry = text[text.index(title) :].split("\n\n")[0]
            assert re.search(rf"year\s+= {year}", entry), (name, title)
    assert f"version = {{{maxmargin.__version__}}}" in (ROOT / "docs/cite.md").read_text("utf-8")
