"""``maxmargin serve`` with arguments that it cannot serve by, and ``replay`` with no log."""

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("msgspec")

BEGIN = ("--algorithm", "amira", "--classes", "no,yes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*BEGIN, "--host", "0.0.0.0"), "set a token"),
        (("--algorithm", "amira"), "--classes"),
        (("--set", "coverage=0.9"), "needs --classes with all labels"),
        (("--classes", "no,yes", "--set", "nothing=1"), "AutoMargin has no parameter 'nothing'"),
        ((), "has no model yet"),
        ((*BEGIN, "--set", "nothing=1"), "no parameter 'nothing'"),
        ((*BEGIN, "--shadow", "x"), "--shadow takes"),
        ((*BEGIN, "--shadow", "x=nothing"), "no algorithm 'nothing'"),
        ((*BEGIN, "--shadow", "a/b=norma"), "a shadow cannot be called 'a/b'"),
        ((*BEGIN, "--shadow", "x=norma", "--shadow", "x=alma"), "two shadows are called x"),
        ((*BEGIN, "--limit", "rowz=1"), "did you mean rows"),
        (("a.mm", "b.mm"), "name each of several models"),
        (("no.mm",), "no.mm"),
        (("--algorithm", "noca", "--classes", "a,b"), "cannot be served"),
        ((*BEGIN, "--shadow", "x=bisectionperceptron"), "cannot be served"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(tmp_path, command, arguments, message):
    code, printed, errors = command("serve", "--data", tmp_path / "data", *arguments)
    assert code in (1, 2)
    assert printed == ""
    assert message in errors
    assert errors.count("\n") == 1


def test_a_token_that_is_no_text_is_refused(tmp_path, command):
    token = tmp_path / "token"
    token.write_bytes(b"\xff\xfe\n")
    data = tmp_path / "data"
    code, _, errors = command("serve", "--data", data, *BEGIN, "--token-file", token)
    assert code == 2
    assert "the token is empty or contains characters that are not allowed" in errors


def test_a_replay_needs_the_folder_of_a_model(tmp_path, command):
    code, _, errors = command("replay", tmp_path)
    assert code == 1
    assert "is not the folder of a model that was served" in errors
