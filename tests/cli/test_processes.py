"""The command as the shell sees it: pipes, terminals, signals, completion, what is imported."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from extent import everything_or

import maxmargin
from maxmargin.persistence import describe

COMMAND = [sys.executable, "-m", "maxmargin"]
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals and terminals differ")
# A shell's background jobs ignore Ctrl-C.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import maxmargin.cli
maxmargin.cli.main()
"""


def test_python_m_is_the_command():
    process = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (0, f"maxmargin {maxmargin.__version__}\n")


def test_missing_typer(python):
    process = python("import sys; sys.modules['typer'] = None; import maxmargin.cli")
    printed, errors = process.communicate()
    assert (process.returncode, printed) == (1, "")
    assert errors == "maxmargin: this command needs typer: pip install 'maxmargin[cli]'\n"


def test_help_imports_nothing_heavy(python):
    program = """
import sys
import maxmargin.cli
for arguments in (["--help"], ["fit", "--help"], ["evaluate", "--help"], ["fit", "x", "-a", "y"]):
    try:
        maxmargin.cli.app(arguments)
    except SystemExit:
        pass
heavy = {"numpy", "scipy", "sklearn", "numba", "llvmlite", "pyarrow", "matplotlib", "pandas"}
print(heavy & set(sys.modules))
"""
    printed, errors = python(program).communicate()
    assert printed.count("Usage: ") == 3
    assert "there is no algorithm 'y'" in errors
    assert printed.splitlines()[-1] == "set()"


def test_completion():
    environment = {
        **os.environ,
        "_MAXMARGIN_COMPLETE": "complete_bash",
        "COMP_WORDS": "maxmargin fit --algorithm pe",
        "COMP_CWORD": "3",
    }
    program = "import sys; sys.argv[0] = 'maxmargin'; from maxmargin.cli import main; main()"
    process = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert process.stdout.split() == ["pegasos", "perceptron"]


@posix_only
def test_reader_that_has_seen_enough(folder, model, tmp_path):
    many = tmp_path / "many.svm"
    many.write_bytes((folder / "rows.svm").read_bytes() * 900)
    with (
        many.open("rb") as file,
        subprocess.Popen(
            [*COMMAND, "predict", str(model), "-"],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout.readline() in ("1\n", "-1\n")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


# Buffers, where there are any, write again what was not taken: without them we must.
buffered_or_not = pytest.mark.parametrize("unbuffered", everything_or(["1"], ["", "1"]))
ON_A_SMALL_DISK = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, -1))
import maxmargin.cli
maxmargin.cli.main()
"""


@posix_only
@buffered_or_not
def test_disk_that_gets_full(unbuffered, folder, model, command, tmp_path):
    """The system takes the first bytes of a write, and refuses only the next one."""
    out = tmp_path / "out"
    # Whatever is compiled is then in the cache, which could not grow on such a disk.
    command("predict", model, folder / "rows.svm", "--json")
    with out.open("w") as file:
        process = subprocess.run(
            [
                sys.executable,
                "-c",
                ON_A_SMALL_DISK,
                "predict",
                model,
                folder / "rows.svm",
                "--json",
            ],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"},
        )
    assert out.stat().st_size == 1000
    assert (process.returncode, process.stderr) == (1, "maxmargin: File too large\n")


@posix_only
def test_unbuffered_output_is_whole(folder, model, command, tmp_path):
    many = tmp_path / "many.svm"
    many.write_bytes((folder / "rows.svm").read_bytes() * 100)
    arguments = ["predict", str(model), str(many), "--scores"]
    _, expected, _ = command(*arguments)
    unbuffered = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        check=True,
    )
    assert unbuffered.stdout == expected
    assert expected.count("\n") == 30_000


@posix_only
def test_ctrl_c_in_a_silent_pipe(folder, python, tmp_path):
    checkpoint = tmp_path / "c"
    arguments = ("fit", "-", "-a", "perceptron", "--checkpoint", checkpoint, "--every", 1)
    with python(INTERRUPTIBLE, *arguments, stdin=subprocess.PIPE) as process:
        process.stdin.write((folder / "rows.svm").read_text() * 900)
        process.stdin.flush()
        wait_for(lambda: checkpoint.exists() and describe(checkpoint).get("classes"))
        process.send_signal(signal.SIGINT)
        # The pipe stays open: only the signal can end the process.
        assert process.wait(timeout=30) == 130
        assert process.stdout.read() == ""
        words = f"interrupted; run the same command to continue from {checkpoint}\n"
        assert process.stderr.read() == words
    assert describe(checkpoint)["kind"] == "checkpoint"


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@posix_only
def test_bar_on_a_terminal(folder, tmp_path):
    import pty

    many = tmp_path / "many.svm"
    many.write_bytes((folder / "rows.svm").read_bytes() * 1000)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "fit", str(many), "-a", "perceptron", "--passes", "2"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "COLUMNS": "160", "TERM": "xterm", "NO_COLOR": "1"},
        text=True,
    )
    os.close(theirs)
    shown = read_all(ours)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert printed.startswith("Perceptron, learned from ")
    assert "\x1b" not in printed
    assert "Perceptron, pass 1" in shown
    assert "MB" in shown
    assert re.search(r"[\d,]+ rows, [\d.e+,]+ rows/s, [\d,]+ mistakes", shown)
    assert re.search(r"\d:\d\d:\d\d", shown)
    # The last thing is that the line is wiped, and the cursor is seen again.
    assert shown.rstrip().endswith("\x1b[2K")
    assert shown.rindex("\x1b[?25h") > shown.rindex("mistakes")


def read_all(terminal):
    parts = []
    while True:
        try:
            part = os.read(terminal, 2**16)
        except OSError:  # Linux's way to say that the other side is closed
            part = b""
        if not part:
            os.close(terminal)
            return b"".join(parts).decode()
        parts.append(part)
