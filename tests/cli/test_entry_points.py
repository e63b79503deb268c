"""Commands of other packages: found by entry points, which no other command looks at."""

import importlib.metadata
from importlib.metadata import EntryPoint

import pytest

from maxmargin.cli.command_group import ENTRY_POINTS


@pytest.fixture
def asked(monkeypatch):
    """The groups of entry points that were asked for."""
    groups, found = [], importlib.metadata.entry_points

    def entry_points(*, group):
        groups.append(group)
        return found(group=group)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    return groups


def test_the_papers_add_their_commands(command, asked):
    code, printed, errors = command("--help")
    assert (code, errors) == (0, "")
    for name in ("fit", "warmup", "demo", "reproduce"):
        assert f" {name} " in printed
    assert asked == [ENTRY_POINTS]  # once


@pytest.mark.parametrize("arguments", [["--version"], ["algorithms"], ["fit", "--help"]])
def test_commands_of_the_library_look_for_no_entry_points(command, asked, arguments):
    assert command(*arguments)[0] == 0
    assert asked == []


def greet(name: str, loudly: bool = False) -> None:
    """Say hello."""
    print(f"Hello {name}{'!' * loudly}")


def test_any_package_can_add_one(command, monkeypatch):
    point = EntryPoint("greet", f"{__name__}:greet", ENTRY_POINTS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: greet)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: [point])
    assert command("greet", "Ada", "--loudly") == (0, "Hello Ada!\n", "")
    assert "Say hello." in command("--help")[1]


def test_commands_of_the_library_cannot_be_replaced(command, monkeypatch):
    point = EntryPoint("info", f"{__name__}:greet", ENTRY_POINTS)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: [point])
    assert "Say hello." not in command("--help")[1]
