"""``maxmargin info``: what is in a file."""

from __future__ import annotations

import json

from maxmargin import AMIRA, Perceptron, save
from maxmargin.persistence import describe


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
        "  parameters  all as by default",
        f"  file        {model}, {said['bytes'] / 1000:.3g} kB, by maxmargin {said['library']}",
    ]


def test_all_parameters_for_programs(report, model):
    said = report("info", model)
    assert said["file"] == str(model)
    assert said["parameters"] == Perceptron().get_params()


def test_only_unusual_parameters(command, tmp_path):
    save(AMIRA(epsilon=0.25, tol=0.1, fit_intercept=False), tmp_path / "m.mm")
    _, printed, _ = command("info", tmp_path / "m.mm")
    assert "AMIRA, a model that has not learnt yet" in printed
    assert "  parameters  epsilon=0.25, fit_intercept=false, tol=0.1\n" in printed


def test_certificate(command, report, tmp_path):
    save(AMIRA(epsilon=0.5, random_state=0).fit([[-1.0], [1.0]], [0, 1]), tmp_path / "m.mm")
    certificate = report("info", tmp_path / "m.mm")["certificate"]
    _, printed, _ = command("info", tmp_path / "m.mm")
    assert f"margin      {certificate['margin']:.6g}, at least " in printed


def test_checkpoint(command, folder, tmp_path):
    path = tmp_path / "c"
    command("fit", folder / "rows.svm", "-a", "perceptron", "--checkpoint", path)
    assert command("info", path)[1].startswith("Perceptron, a checkpoint\n")


def test_lack_of_memory_is_not_damage(command, model, monkeypatch):
    def out_of_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr(json, "loads", out_of_memory)
    assert command("info", model) == (1, "", "maxmargin: there is not enough memory\n")
