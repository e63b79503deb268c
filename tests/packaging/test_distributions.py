"""What is in the wheel and in the source distribution."""

import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import maxmargin

ROOT = Path(__file__).parents[2]
MOST_BYTES = 8_000_000


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The paths of wheel and source distribution, made without the network."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    program = "import sys; from hatchling.build import build_sdist, build_wheel\n"
    program += "build_wheel(sys.argv[1]), build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, str(folder)], cwd=ROOT, check=True)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def test_the_wheel_is_the_two_packages_alone(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
    metadata = f"maxmargin-{maxmargin.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"maxmargin", "maxmargin_papers", metadata}
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.*")}
    wanted = {name for name in wanted if "__pycache__" not in name}
    assert wanted <= names
    assert {"maxmargin/py.typed", "maxmargin_papers/pages/page.html.jinja"} <= names
    assert {"maxmargin_papers/py.typed", "maxmargin_papers/demo/demo.html.jinja"} <= names
    assert f"{metadata}/licenses/LICENSE" in names


def test_the_source_has_tests_and_docs_and_no_data(built):
    with tarfile.open(built[1]) as source:
        sizes = {member.name.partition("/")[2]: member.size for member in source.getmembers()}
    folders = {name.partition("/")[0] for name in sizes if "/" in name}
    assert {"src", "tests", "docs", "benchmarks", "constraints"} <= folders
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "Makefile"} <= sizes.keys()
    assert not folders & {"data", ".venv", "build", "dist"}
    assert sum(sizes.values()) < MOST_BYTES


def requirements(path):
    with zipfile.ZipFile(path) as wheel:
        text = wheel.read(f"maxmargin-{maxmargin.__version__}.dist-info/METADATA").decode()
    return [Requirement(line) for line in message_from_string(text).get_all("Requires-Dist")]


def test_the_extra_for_serving_has_what_the_command_needs(built):
    names = {
        each.name
        for each in requirements(built[0])
        if each.marker and each.marker.evaluate({"extra": "serve"})
    }
    assert {"typer", "rich", "starlette", "uvicorn", "httptools", "msgspec"} <= names


@pytest.mark.parametrize("extra", ["all", "dev"])
def test_on_python_310_extras_leave_river_out(built, extra):
    """River needs a newer one; the build forgets conditions behind extras of our own."""
    markers = [each.marker for each in requirements(built[0]) if each.name == "river"]
    for python, is_there in (("3.10", False), ("3.11", True)):
        environment = {"extra": extra, "python_version": python}
        assert any(marker.evaluate(environment) for marker in markers) == is_there
