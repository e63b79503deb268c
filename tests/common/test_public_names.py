"""Public names: always the same objects, whatever else has been imported, and known to tools."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from common.estimators import ALL_ESTIMATORS, of_each_kind
from extent import everything_or

import maxmargin
from maxmargin import ROMMA

STUB = Path(maxmargin.__file__).with_suffix(".pyi")

WALK = """
import importlib.util, inspect, pkgutil
import maxmargin
from maxmargin import ROMMA

def walk():
    for found in pkgutil.walk_packages(maxmargin.__path__, "maxmargin."):
        missing = found.name == "maxmargin.river" and not importlib.util.find_spec("river")
        if not found.name.endswith("__main__") and not missing:
            importlib.import_module(found.name)

def public():
    return {name: getattr(maxmargin, name) for name in maxmargin.__all__}

def check(found):
    for name, value in found.items():
        assert not inspect.ismodule(value), name
        assert value.__name__ == name, (name, value)
        assert value is getattr(importlib.import_module(value.__module__), name), name
"""
ORDERS = {
    "modules first": "walk(); check(public())",
    "names first": "before = public(); walk(); check(before); assert public() == before",
}


@pytest.mark.parametrize("order", everything_or(["names first"], list(ORDERS)))
def test_no_module_takes_the_place_of_a_public_name(order):
    """A submodule becomes an attribute of the package when it is imported."""
    program = f"{WALK}\n{ORDERS[order]}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def stub():
    """The names that the stub imports, by their modules."""
    found = {}
    for line in ast.parse(STUB.read_text()).body:
        if isinstance(line, ast.ImportFrom):
            for each in line.names:
                assert each.asname == each.name  # else type checkers take it for private
                found.setdefault(line.module, []).append(each.name)
    return found


def test_the_stub_lists_the_same_names():
    modules = stub().pop("maxmargin")
    assert sorted(modules) == sorted(maxmargin._MODULES)
    names = [name for module, each in stub().items() if module != "maxmargin" for name in each]
    assert sorted(names) == maxmargin.__all__


def test_the_stub_knows_where_they_live():
    for module, names in stub().items():
        for name in names:
            if module != "maxmargin":
                assert module == f"maxmargin.{maxmargin._HOMES[name]}"


def test_dir_has_them():
    assert {*maxmargin.__all__, *maxmargin._MODULES, "__version__"} <= set(dir(maxmargin))
    assert sorted(maxmargin.__all__) == maxmargin.__all__
    assert len(set(maxmargin.__all__)) == len(maxmargin.__all__)


def test_every_algorithm_is_public():
    assert set(maxmargin.ALGORITHMS) <= set(maxmargin.__all__)
    folder = Path(maxmargin.__file__).parent / "algorithms"
    files = {path.stem for path in folder.glob("*.py")} - {
        "__init__",
        "bound_arguments",
        "conformalclassifier",
        "diagonal_learner",
        "labelqueries",
        "leading_experts",
        "movingtargets",
    }
    assert files == {name.lower() for name in maxmargin.ALGORITHMS}


def test_other_names_raise():
    with pytest.raises(AttributeError, match="module 'maxmargin' has no attribute 'Perceptrom'"):
        maxmargin.Perceptrom  # noqa: B018


def test_names_of_files_are_unique():
    """So that a file's name alone says which one is meant."""
    library = Path(maxmargin.__file__).parent
    for package in (library, library.parent / "maxmargin_papers"):
        names = [path.name for path in package.rglob("*.py") if path.name != "__init__.py"]
        assert len(names) == len(set(names))


def test_a_new_learner_is_tested_with_all_shared_checks():
    """Also by `make test`, until `SAME_KIND` says which kind of model it has."""

    class CrammerSingerMIRA(ROMMA):
        pass

    assert CrammerSingerMIRA in of_each_kind([*ALL_ESTIMATORS, CrammerSingerMIRA])
