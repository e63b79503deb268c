"""``maxmargin serve`` with arguments that it cannot serve by, and ``replay`` without a folder."""

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("msgspec")

from maxmargin.serve.database import FILE

BEGIN = ("--algorithm", "amira", "--classes", "no,yes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*BEGIN, "--host", "0.0.0.0"), "set a token"),
        (("--algorithm", "amira"), "--classes"),
        (("--set", "C=0.9"), "needs --classes with all labels"),
        (("--classes", "no,yes", "--set", "nothing=1"), "AutoMargin has no parameter 'nothing'"),
        ((), "has no model yet"),
        ((*BEGIN, "--set", "nothing=1"), "no parameter 'nothing'"),
        ((*BEGIN, "--coverage", "2"), "coverage"),
        (("a.mm", *BEGIN), "either a model file or --algorithm"),
        (("no.mm",), "no.mm"),
        (("--algorithm", "noca", "--classes", "a,b"), "cannot be served"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(tmp_path, command, arguments, message):
    code, printed, errors = command("serve", "--data", tmp_path / "data", *arguments)
    assert code in (1, 2)
    assert printed == ""
    assert message in errors
    assert errors.count("\n") == 1


def test_a_folder_with_a_model_goes_on_with_it(tmp_path, command):
    (tmp_path / FILE).touch()
    code, _, errors = command("serve", "--data", tmp_path, "--algorithm", "alma")
    assert code == 2
    assert f"{tmp_path} has a model already: leave --algorithm out" in errors


def test_a_token_that_is_no_text_is_refused(tmp_path, command):
    token = tmp_path / "token"
    token.write_bytes(b"\xff\xfe\n")
    given = ("serve", "--data", tmp_path / "data", *BEGIN, "--learn-token-file", token)
    code, _, errors = command(*given)
    assert code == 2
    assert "the token is empty or contains characters that are not allowed" in errors


def test_a_replay_needs_a_folder(tmp_path, command):
    code, _, errors = command("replay", tmp_path)
    assert code == 1
    assert "is not the folder of a server" in errors
    assert "needs --algorithm" in command("replay", tmp_path, "--set", "C=1")[2]
