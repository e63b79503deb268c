"""What is in a file does not depend on what the code calls things."""

import ast
import contextlib
import inspect
import json
import re
from functools import cache
from pathlib import Path

import pytest
from campaigns.modelfiles import taken_apart
from persistence.states import VARIANTS, _learners, fitted, known_to, made, streamed

import maxmargin
from maxmargin import NOCA, Perceptron, _registry
from maxmargin.core.array_fields import declared, is_part
from maxmargin.persistence import container, load, model_tree, save
from maxmargin.training.protocol import state_of

KINDS = {name: (_learners(VARIANTS[name][0])[0], *VARIANTS[name]) for name in VARIANTS}


@cache
def learner(name):
    if name == "fitted":
        return fitted(made(Perceptron))
    if name == "mixture":
        return streamed(made(NOCA, max_components=6))
    Estimator, parameters, rows, labels = KINDS[name]
    return streamed(made(Estimator, **parameters), rows, labels)


every_kind = pytest.mark.parametrize("name", ["fitted", "mixture", *KINDS])


def saved(clf, folder):
    save(clf, folder / "model.mm")
    return (folder / "model.mm").read_bytes()


def parts_of(value, found=None):
    """The classes of all that a learner is made of."""
    found = set() if found is None else found
    if isinstance(value, dict | list | tuple) and not hasattr(value, "_asdict"):
        for each in value.values() if isinstance(value, dict) else value:
            parts_of(each, found)
    elif is_part(value):
        found.add(type(value))
        inside = value._asdict() if isinstance(value, tuple) else vars(value)
        parts_of(inside, found)
    return found


@contextlib.contextmanager
def renamed(kinds):
    """Call classes by other names; what is compiled has been compiled before."""
    before = {kind: (kind.__name__, kind.__qualname__) for kind in kinds}
    for number, kind in enumerate(kinds):
        kind.__name__ = kind.__qualname__ = f"Renamed{number}"
    try:
        yield
    finally:
        for kind, names in before.items():
            kind.__name__, kind.__qualname__ = names


@every_kind
def test_classes_of_other_names_give_the_same_bytes(name, tmp_path):
    clf = learner(name)
    before, known = saved(clf, tmp_path), known_to(clf)
    internal = parts_of(state_of(clf))
    assert len(internal) >= 4
    assert not {kind.__name__ for kind in internal} & set(maxmargin.__all__)
    with renamed(internal):
        assert saved(clf, tmp_path) == before
        again = load(tmp_path / "model.mm")
    assert known_to(again) == known


@every_kind
def test_no_class_of_the_inside_is_named(name, tmp_path):
    header, _ = taken_apart(saved(learner(name), tmp_path))
    words = set(re.findall(r"\w+", json.dumps(header["content"])))
    assert not words & {kind.__name__ for kind in parts_of(state_of(learner(name)))}


def test_a_field_with_another_name_in_the_code_keeps_that_of_files(tmp_path, monkeypatch):
    """As if `LinearModel.tally` had been called something else."""
    clf = fitted(made(Perceptron))
    before, model = saved(clf, tmp_path), state_of(clf).model
    tally = model.tally

    def counted(name):
        return "counted" if name == "tally" else name

    fields = {counted(name): each for name, each in vars(model).items()}
    names = {counted(name): each for name, each in declared(type(model)).items()}
    monkeypatch.setattr(names["counted"], "name", "tally")
    vars(model).clear()
    vars(model).update(fields)
    monkeypatch.setattr(type(model), "tally", property(lambda self: self.counted), raising=False)
    monkeypatch.setattr(
        model_tree, "declared", lambda kind: names if kind is type(model) else declared(kind)
    )
    assert saved(clf, tmp_path) == before
    assert model.counted is tally


@every_kind
def test_names_in_files_are_different(name):
    for kind in parts_of(state_of(learner(name))):
        there = [each.name or field for field, each in declared(kind).items() if each.saved]
        assert len(set(there)) == len(there)
        assert all(re.fullmatch(r"[a-zA-Z]\w*", each) for each in there)


# ------------------------------------------------------------------------------------------ imports
def imported_by(module):
    """The modules that a module imports, by their full names."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module


def test_the_container_knows_nothing_of_learners():
    ours = [name for name in imported_by(container) if name.split(".")[0] == "maxmargin"]
    assert ours == []


def test_files_know_nothing_of_spaces_and_loops():
    """Of what models are made of, declarations and the rows of kernels are known, nothing else."""
    for path in Path(inspect.getfile(container)).parent.glob("*.py"):
        module = __import__(f"maxmargin.persistence.{path.stem}", fromlist=["x"])
        for name in imported_by(module):
            parts = name.split(".")[:2]
            assert (
                parts[0] != "maxmargin"
                or parts[-1] in ("maxmargin", "persistence", "kernels")
                or name == "maxmargin.core.array_fields"
            )


def test_files_name_public_classes_by_a_table():
    """No attribute of the package is asked for, which would import a layer above."""
    for path in Path(inspect.getfile(container)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert "maxmargin" not in [each.name for each in node.names], path
            if isinstance(node, ast.ImportFrom) and node.module == "maxmargin":
                assert {each.name for each in node.names} <= {"_registry", "__version__"}, path
    for name in maxmargin.ALGORITHMS:
        assert _registry.learner(name) is getattr(maxmargin, name)
    assert _registry.learner("load") is None
