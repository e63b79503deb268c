"""Every option that a message recommends exists where the message appears."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import maxmargin
from maxmargin import streams
from maxmargin.cli.errors import OPTIONS
from maxmargin.streams.arrays import ArraySource
from maxmargin.streams.iterators import IteratorSource
from maxmargin.streams.svmlight import SvmlightSource
from maxmargin.streams.tables import TableSource

typer = pytest.importorskip("typer")

PACKAGE = Path(maxmargin.__file__).parent
# What says something to people.
SPEAKERS = ("misuse", "fail", "complain", "warn", "Error", "Surprise", "Exception")
# An option, perhaps behind the name of the command that has it.
DASHED = re.compile(r"(?:(\w+) )?(?<![\w-])(--[a-z][a-z-]*)")
IN_PYTHON = re.compile(r"(?<![\w.'])([a-z][a-z_]+)=")
# Modules of the command whose messages appear in these commands; all others in their own.
SHARED = {
    "data": ("fit", "evaluate"),
    "learner_options": ("fit", "evaluate"),
    "output": ("fit",),
    "counted": ("fit", "evaluate"),
}


def options_of_commands():
    from maxmargin.cli import app

    group = typer.main.get_command(app)
    return {
        name: {
            option
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for name, command in group.commands.items()
    }


def name_of(call):
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def speaking_calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node).endswith(SPEAKERS):
            yield node


def texts_in(node):
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def sources():
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE), ast.parse(path.read_text(encoding="utf-8"))


def test_dashed_options_exist_on_the_commands_that_mention_them():
    known, seen = options_of_commands(), 0
    wrong = []
    for path, tree in sources():
        for call in speaking_calls(tree):
            for owner, option in DASHED.findall(" ".join(texts_in(call))):
                seen += 1
                if path.parts[0] != "cli":
                    wrong.append(f"{path}:{call.lineno}: {option} is none of Python")
                    continue
                commands = (owner,) if owner in known else SHARED.get(path.stem, (path.stem,))
                missing = [each for each in commands if option not in known.get(each, ())]
                if missing:
                    wrong.append(f"{path}:{call.lineno}: {option} is none of {missing}")
    assert wrong == []
    assert seen > 5


def test_options_in_messages_exist():
    """As parameters of learners or of what reads rows."""
    learners = [getattr(maxmargin, name) for name in maxmargin.ALGORITHMS]
    parameters = {name for cls in learners for name in cls().get_params()}
    readers = (
        streams.open,
        streams.Recipe,
        ArraySource,
        IteratorSource,
        SvmlightSource,
        TableSource,
    )
    calls = [cls.fit_stream for cls in learners if callable(getattr(cls, "fit_stream", None))]
    arguments = {name for each in (*readers, *calls) for name in inspect.signature(each).parameters}
    found = set()
    for path, tree in sources():
        if path.parts[0] in ("streams", "training"):
            for call in speaking_calls(tree):
                found.update(IN_PYTHON.findall(" ".join(texts_in(call))))
    assert len(found) > 8
    assert found - parameters - arguments == {"lines", "orient"}  # of pandas


def test_all_options_that_messages_may_be_spelled_with_exist():
    known = options_of_commands()
    for spelled in set(OPTIONS.values()):
        assert known["fit"].issuperset(spelled.split("/")), spelled
