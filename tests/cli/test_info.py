"""``maxmargin info``: what is in a file."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from campaigns.modelfiles import EVIL, _places, put_together, taken_apart
from extent import EVERYTHING

from maxmargin import AMIRA, Perceptron, save
from maxmargin.cli.output import margin_text
from maxmargin.persistence import describe, write_file


def test_for_people(command, model):
    code, printed, errors = command("info", model)
    assert (code, errors) == (0, "")
    said = describe(model)
    assert printed.splitlines() == [
        "Perceptron, a model",
        "  features    3",
        "  classes     -1, 1",
        f"  mistakes    {said['mistakes']}",
        f"  updates     {said['updates']}",
        "  parameters  defaults",
        f"  file        {model}, {said['bytes'] / 1000:.3g} kB, by maxmargin {said['library']}",
    ]


def test_all_parameters_for_programs(report, model):
    said = report("info", model)
    assert said["file"] == str(model)
    assert said["parameters"] == Perceptron().get_params()


def test_only_unusual_parameters(command, tmp_path):
    save(AMIRA(epsilon=0.25, tol=0.1, fit_intercept=False), tmp_path / "m.mm")
    _, printed, _ = command("info", tmp_path / "m.mm")
    assert "AMIRA, a model, not fitted yet" in printed
    assert "  parameters  epsilon=0.25, fit_intercept=false, tol=0.1\n" in printed


def test_certificate(command, report, tmp_path):
    save(AMIRA(epsilon=0.5, random_state=0).fit([[-1.0], [1.0]], [0, 1]), tmp_path / "m.mm")
    certificate = report("info", tmp_path / "m.mm")["certificate"]
    _, printed, _ = command("info", tmp_path / "m.mm")
    assert f"margin      {margin_text(certificate['margin'], certificate['ratio'])}\n" in printed


def test_checkpoint(command, folder, tmp_path):
    path = tmp_path / "c"
    command("fit", folder / "rows.svm", "-a", "perceptron", "--checkpoint", path)
    assert command("info", path)[1].startswith("Perceptron, a checkpoint\n")


def test_lack_of_memory_is_not_damage(command, model, monkeypatch):
    def out_of_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr(json, "loads", out_of_memory)
    assert command("info", model) == (1, "", "maxmargin: not enough memory\n")


# ---------------------------------------------------------------------------- files from strangers
def retold(model, path, change):
    """A copy of the model whose header ``change`` has changed, with the right checksum."""
    header, arrays = taken_apart(model.read_bytes())
    change(header)
    path.write_bytes(put_together(header, arrays))
    return path


@pytest.mark.parametrize("name", ["save", "streams", "__doc__", "no such learner", "datasets"])
def test_nothing_is_called_by_a_name_from_a_file(name, command, model, tmp_path):
    def change(header):
        header["content"]["model"]["estimator"] = name

    code, printed, errors = command("info", retold(model, tmp_path / "m.mm", change))
    assert (code, printed) == (1, "")
    assert errors.endswith(f"inconsistent: there is no learner {name!r}.\n")


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_control_characters_are_not_obeyed(flags, command, tmp_path):
    evil = "\x1b]0;owned\x07\r\n\x9b2J\u202e\u2028\x7f"

    def change(header):
        header["library"] = evil
        header["content"]["model"]["parameters"]["kernel"] = evil

    save(Perceptron(random_state=0).fit([[-1.0], [1.0]], [evil, "plain"]), tmp_path / "evil.mm")
    path = retold(tmp_path / "evil.mm", tmp_path / "m.mm", lambda header: None)
    code, printed, errors = command("info", path, *flags)
    assert (code, errors) == (0, "")
    assert printed.replace("\n", "").isprintable()
    assert "owned" in printed
    if flags:
        assert json.loads(printed)["classes"] == [evil, "plain"]
    else:
        assert "classes     \\x1b]0;owned\\x07\\r\\n\\x9b2J" in printed
    save(Perceptron(), tmp_path / "evil.mm")
    code, printed, errors = command("info", retold(tmp_path / "evil.mm", path, change), *flags)
    assert code == 0
    assert printed.replace("\n", "").isprintable()


def test_control_characters_in_complaints(command, tmp_path):
    code, printed, errors = command("info", tmp_path / "no\x1b[2Jne\n.mm")
    assert (code, printed) == (1, "")
    assert errors.endswith("no\\x1b[2Jne\\n.mm: No such file or directory\n")


def test_checkpoint_without_a_learner(command, tmp_path):
    write_file(tmp_path / "c", "checkpoint", {"row": 3})
    code, printed, errors = command("info", tmp_path / "c")
    assert (code, errors) == (0, "")
    assert printed.startswith(f"no learner, a checkpoint\n  file  {tmp_path / 'c'}, ")


def test_changed_headers_never_show_a_traceback(command, model, tmp_path):
    """Whatever a header says, it is shown, or the file is refused on one line."""
    random, codes = np.random.default_rng(3), []

    def change(header):
        for _ in range(random.integers(1, 4)):
            places = list(_places(header))
            holder, key = places[random.integers(len(places))]
            evil = [*copy.deepcopy(EVIL), "\x1b[2J", 1e999, float("nan")]
            holder[key] = evil[random.integers(len(evil))]

    for _ in range(150 if EVERYTHING else 50):
        path = retold(model, tmp_path / "m.mm", change)
        for flags in ((), ("--json",)):
            code, printed, errors = command("info", path, *flags)
            codes.append(code)
            assert (printed + errors).replace("\n", "").isprintable()
            if code:
                assert printed == ""
                assert errors.startswith(f"maxmargin: {path}: ")
                assert errors.count("\n") == 1
    assert set(codes) <= {0, 1}
