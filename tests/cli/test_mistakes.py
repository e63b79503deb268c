"""Mistakes of users: one line, the right exit code, never a traceback."""

from __future__ import annotations

import errno
import io
import os
import pickle

import numpy as np
import pytest

import maxmargin
from maxmargin.cli import learner_options
from maxmargin.cli.algorithms import learners as public_learners
from maxmargin.cli.errors import in_words


def one_line(result):
    code, printed, errors = result
    assert printed == ""
    assert errors.count("\n") == 1
    assert errors.startswith("maxmargin: ")
    return code, errors.removeprefix("maxmargin: ").rstrip()


def test_version(command):
    assert command("--version") == (0, f"maxmargin {maxmargin.__version__}\n", "")


def test_help_names_the_commands(command):
    code, printed, _ = command("--help")
    assert code == 0
    for name in ("fit", "predict", "evaluate", "info", "algorithms", "demo"):
        assert f" {name} " in printed


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["evaluat", "rows.svm"], "Did you mean 'evaluate'?"),
        (["fit", "rows.csv", "--lable", "y"], "--label"),
    ],
)
def test_mistyped_names(command, arguments, hint):
    code, printed, errors = command(*arguments)
    assert (code, printed) == (2, "")
    assert hint in errors
    assert errors.startswith("maxmargin: ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict"], "missing argument 'MODEL'; see maxmargin predict --help"),
        (["nothing"], "no such command 'nothing'; see maxmargin --help"),
        (["fit", "--passes"], "option '--passes' requires an argument"),
        (["fit", "rows.svm", "--passes", "0"], "invalid value for '--passes'"),
        (["evaluate", "rows.svm", "--delay", "-1"], "invalid value for '--delay'"),
    ],
)
def test_errors_of_usage_are_one_line(command, arguments, message):
    code, printed, errors = command(*arguments)
    assert (code, printed) == (2, "")
    assert errors.startswith(f"maxmargin: {message}")
    assert errors.count("\n") == 1


def test_without_arguments_there_is_help(command):
    code, printed, errors = command()
    assert code == 2
    assert "Usage: maxmargin" in printed + errors
    assert "maxmargin: " not in errors


def test_a_full_disk_names_the_file(command, folder, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "new.mm"
    code, _, errors = command("fit", folder / "rows.svm", "--model", path)
    assert code == 1
    assert errors.splitlines()[-1] == f"maxmargin: {path}: No space left on device"


def test_all_learners_are_known():
    assert list(learner_options.names().values()) == [cls.__name__ for cls in public_learners()]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("amiro", "did you mean amira or arow or micra?"),
        ("pa", "did you mean passiveaggressive?"),
        ("Passiv-Agressive", "did you mean passiveaggressive?"),
        ("xyz", "there are alma, amira, "),
    ],
)
def test_unknown_algorithm(command, folder, name, hint):
    code, message = one_line(command("fit", folder / "rows.svm", "--algorithm", name))
    assert code == 2
    assert message.startswith(f"there is no algorithm {name!r}: {hint}")


def test_learner_that_needs_all_rows_at_once(command, folder):
    code, message = one_line(command("evaluate", folder / "rows.svm", "-a", "bisectionperceptron"))
    assert code == 2
    assert message.startswith("BisectionPerceptron needs all rows in memory: only maxmargin fit")


@pytest.mark.parametrize(
    "options",
    [("--passes", 2), ("--checkpoint", "c.mm"), ("--classes", "-1,1"), ("--coverage", 0.9)],
)
def test_options_of_streams_for_a_learner_of_all_rows(command, folder, options, monkeypatch):
    monkeypatch.chdir(folder)
    code, message = one_line(command("fit", folder / "rows.svm", "-a", "maxmargin", *options))
    assert code == 2
    assert options[0] in message


def test_a_recipe_for_all_rows_needs_a_file(command, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,y\n1,0\n2,1\n3,1\n")))
    code, message = one_line(command("fit", "-", "-a", "maxmargin", "--label", "y"))
    assert code == 2
    assert "can be read only once: MaxMargin needs a file" in message


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("EPSILON=1", "AMIRA has no parameter 'EPSILON': did you mean epsilon?"),
        ("epsilo=1", "AMIRA has no parameter 'epsilo': did you mean epsilon?"),
        ("amira.epsilo=1", "AMIRA has no parameter 'epsilo': did you mean epsilon?"),
        ("epsilon", "--set takes name=value, got 'epsilon'."),
        ("=3", "--set takes name=value, got '=3'."),
        ("max_iter=3", "max_iter has no effect on a stream: use fit --passes."),
    ],
)
def test_unknown_setting(command, folder, setting, hint):
    result = command("fit", folder / "rows.svm", "-a", "amira", "--set", setting)
    assert one_line(result) == (2, hint)


def test_parameters_are_listed_if_none_is_close(command, folder):
    _, message = one_line(command("fit", folder / "rows.svm", "--set", "bogus=1"))
    assert message.startswith("AutoMargin has no parameter 'bogus': there are ")


@pytest.mark.parametrize("setting", ["epsilon=high", "epsilon=-1", "epsilon=nan", "kernel=rbg"])
def test_bad_value(command, folder, setting):
    code, message = one_line(command("fit", folder / "rows.svm", "--set", setting))
    assert code == 2
    assert setting.partition("=")[0] in message


@pytest.mark.parametrize(
    "options",
    [("--format", "cvs"), ("--categorical", "x"), ("--passes", "0"), ("--n-features", "two")],
)
def test_bad_option(command, folder, options):
    code, printed, errors = command("fit", folder / "rows.svm", *options)
    assert (code, printed) == (2, "")
    assert options[0] in errors
    assert "Traceback" not in errors


def test_option_of_another_format(command, folder):
    pytest.importorskip("pyarrow")
    result = command("fit", folder / "table.csv", "--n-features", 3)
    assert one_line(result) == (2, "--n-features is not an option of csv sources.")


@pytest.mark.parametrize("verb", ["fit", "evaluate"])
def test_missing_file(command, folder, verb):
    result = command(verb, folder / "nothing")
    assert one_line(result) == (1, f"{folder / 'nothing'}: No such file or directory")


@pytest.mark.parametrize("verb", ["fit", "evaluate"])
def test_trouble_in_the_data(command, folder, verb):
    code, message = one_line(command(verb, folder / "bad.svm", "-a", "perceptron"))
    assert code == 1
    assert message.startswith(f"{folder / 'bad.svm'}, line 2, column 6: ")
    result = command(verb, folder / "empty.svm", "-a", "perceptron")
    assert one_line(result) == (1, f"{folder / 'empty.svm'}: there are no rows.")


def test_table_without_a_word_about_labels(command, folder):
    pytest.importorskip("pyarrow")
    code, message = one_line(command("fit", folder / "table.csv"))
    assert code == 1
    assert "name it with --label; there are 'size', 'side', 'answer'" in message


def test_options_are_called_as_on_the_command_line(command, folder, tmp_path):
    code, message = one_line(command("fit", folder / "wide.svm", "--n-features", 5))
    assert (code, "more than --n-features 5." in message) == (1, True)
    (tmp_path / "zero.svm").write_text("1 1:1\n-1 0:1\n")
    code, message = one_line(command("fit", tmp_path / "zero.svm", "--one-based"))
    assert (code, "(use --zero-based)" in message) == (1, True)


@pytest.mark.parametrize(
    ("in_python", "here"),
    [
        ("label=", "--label"),
        ('categories="hash"', "--categorical hash"),
        ("passes=1", "--passes 1"),
        ("zero_based=True", "--zero-based"),
        ("header=False", "--no-header"),
        ("kinds={'zip': 'category'}", "--kind zip=category"),
        ("na_values=['n a', '-']", "--na 'n a' -"),
        ("gamma='scale'", "--set gamma=scale"),
        ("tol=None", "--set tol=none"),
        ("year=2024/label_=1", "year=2024/label_=1"),
    ],
)
def test_names_of_options(in_python, here):
    for end in (".", "; or", " and"):
        assert in_words(ValueError(f"{{say}} {in_python}{end}")) == f"{{say}} {here}{end}"


@pytest.mark.parametrize("format", ["parquet", "numpy"])
def test_what_no_pipe_can_give(command, folder, from_stdin, format):
    from_stdin(folder / "rows.svm")
    code, message = one_line(command("fit", "-", "--format", format))
    assert code == 2
    assert message.startswith(f"{format} cannot be read from a pipe")


def test_two_passes_over_a_pipe(command, folder, from_stdin):
    from_stdin(folder / "rows.svm")
    code, message = one_line(command("fit", "-", "--passes", 2))
    assert code == 2
    assert "--passes 2 needs a file" in message


@pytest.mark.parametrize("arguments", [("info",), ("predict", "rows.svm")])
def test_what_is_no_model(command, folder, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(folder)
    verb, *data = arguments
    (tmp_path / "text").write_text("no model")
    (tmp_path / "pickle").write_bytes(pickle.dumps([1, 2]))
    (tmp_path / "empty").write_bytes(b"")
    for name in ("text", "pickle", "empty", "nothing", ""):
        code, message = one_line(command(verb, tmp_path / name, *data))
        assert code == 1
        assert message.startswith(str(tmp_path / name))


def test_damaged_model(command, model, tmp_path):
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "m.mm").write_bytes(content)
    code, message = one_line(command("info", tmp_path / "m.mm"))
    assert code == 1
    assert "CRC" in message


def test_every_needs_a_checkpoint(command, folder):
    code, message = one_line(command("fit", folder / "rows.svm", "--every", 5))
    assert (code, "--checkpoint" in message) == (2, True)


def test_no_file_of_the_command_is_overwritten(command, tmp_path):
    data, labels = tmp_path / "X.npy", tmp_path / "y.npy"
    np.save(data, np.eye(4))
    np.save(labels, np.array([0, 1, 0, 1]))
    before = labels.read_bytes()
    for option in ("--model", "--checkpoint"):
        assert one_line(command("fit", data, "--label", labels, option, labels))[0] == 2
    assert labels.read_bytes() == before


def test_the_test_is_looked_for_before_learning(command, folder, tmp_path):
    model = tmp_path / "m.mm"
    arguments = ("fit", folder / "rows.svm", "--model", model, "--test", tmp_path / "none.svm")
    code, message = one_line(command(*arguments))
    assert (code, "none.svm" in message, model.exists()) == (1, True, False)
