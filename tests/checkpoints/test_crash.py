"""Processes that are killed at any moment, and started again until they are done."""

import functools
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from problems import separable
from streamed import svmlight_text

from maxmargin import persistence

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")

# How often each run is killed: some times, or as often as you wait for, and then more runs.
KILLS = int(os.environ.get("MAXMARGIN_KILLS", "3"))
RUNS = ["recipe", "AutoMargin"]
if "MAXMARGIN_KILLS" in os.environ:
    RUNS += ["command", "RandomBudgetPerceptron", "AMIRA", "Forgetron"]
# Of the kills, this part hits processes that have not begun to learn.
EARLY = 0.1
# There are several blocks in a pass, and checkpoints are written most of the time.
SCRIPT = """
import sys
import warnings
warnings.simplefilter("error")
import maxmargin
from maxmargin import streams

data, learner, checkpoint, model = sys.argv[1:]
clf = eval(f"maxmargin.{learner}")
source = streams.open(data, block_size=8000)
clf.fit_stream(source, checkpoint=checkpoint, every=100, passes=12)
maxmargin.save(clf, model)
"""
LEARNERS = {
    "AMIRA": "AMIRA()",
    "AutoMargin": "AutoMargin(kernel='rbf', n_components=16, random_state=0)",
    "Forgetron": "Forgetron(budget=50, gamma=0.1, random_state=0)",
    "RandomBudgetPerceptron": "RandomBudgetPerceptron(budget=50, gamma=0.1, random_state=0)",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Rows that cannot be separated, so that there is something to learn in each pass."""
    X, y = separable(1000, 8, gap=0.1)
    y[::10] *= -1
    path = tmp_path_factory.mktemp("data") / "rows.svm"
    path.write_text(svmlight_text(X.round(4), y))
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Raw columns of all kinds, with gaps, and categories that go on coming: several blocks."""
    chance = random.Random(1)
    path = tmp_path_factory.mktemp("table") / "table.csv"
    words = ["good", "bad", "late", "grüße", "never again", "so so"]
    with path.open("w") as file:
        file.write("age,city,since,note,label\n")
        for k in range(40_000):
            age = "" if chance.random() < 0.1 else f"{chance.gauss(40.0, 12.0):.3f}"
            city = f"city{chance.randrange(1 + k // 20)}" if chance.random() < 0.5 else "Rome"
            day = f"20{chance.randrange(10, 25)}-{chance.randrange(1, 13):02}-07"
            note = " ".join(chance.choices(words, k=12))
            file.write(f"{age},{city},{day},{note},{chance.choice(('no', 'yes'))}\n")
    return path


def arguments_of(run, data, folder):
    """Of Python: the command, or a script that works in smaller blocks."""
    checkpoint, model = folder / "checkpoint", folder / "model.mm"
    if run == "recipe":
        return [
            *["-m", "maxmargin", "fit", data, "--algorithm", "amira"],
            *["--every", "1", "--passes", "2", "--checkpoint", checkpoint, "-m", model],
        ]
    if run == "command":
        return [
            *["-m", "maxmargin", "fit", data, "--algorithm", "amira"],
            *["--passes", "500", "--every", "20000", "--checkpoint", checkpoint, "-m", model],
        ]
    return ["-c", SCRIPT, data, LEARNERS[run], checkpoint, model]


def started(arguments):
    """A process that hears Ctrl-C, even if these tests run in the background."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def look_at(path):
    """Changes whenever a checkpoint is written."""
    try:
        return path.stat().st_ino, path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def wait_until_it_learns(path, before, process):
    """A run begins with writing a checkpoint."""
    while look_at(path) in (None, before) and process.poll() is None:
        time.sleep(0.001)


def finish(process):
    _, trouble = process.communicate()
    assert process.returncode == 0, trouble


@functools.cache
def never_killed(run, data, folder):
    """The bytes of the model, and for how long the run was learning."""
    folder.mkdir()
    process = started(arguments_of(run, data, folder))
    wait_until_it_learns(folder / "checkpoint", None, process)
    began = time.monotonic()
    finish(process)
    return (folder / "model.mm").read_bytes(), time.monotonic() - began


def killed_and_restarted(run, data, folder, seconds):
    """The bytes of the model, and the number of processes that were killed in the middle."""
    folder.mkdir()
    chance, killed = random.Random(0), 0
    while killed < KILLS:
        before = look_at(folder / "checkpoint")
        is_early = chance.random() <= EARLY
        process = started(arguments_of(run, data, folder))
        if not is_early:
            for _ in range(chance.randint(1, 2)):  # or nothing would go on from within a pass
                wait_until_it_learns(folder / "checkpoint", before, process)
                before = look_at(folder / "checkpoint")
            time.sleep(chance.uniform(0.0, seconds / KILLS))
        else:
            time.sleep(chance.uniform(0.0, 0.5))
        process.kill()
        _, trouble = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, trouble
        killed += 1
    finish(started(arguments_of(run, data, folder)))
    return (folder / "model.mm").read_bytes(), killed


@pytest.mark.parametrize("run", RUNS)
def test_killed_at_any_moment(run, data, table, tmp_path):
    data = table if run == "recipe" else data
    expected, seconds = never_killed(run, data, data.parent / run)
    for attempt in range(8):
        model, killed = killed_and_restarted(run, data, tmp_path / f"often {attempt}", seconds)
        print(f"{run}: {killed} processes were killed, {seconds:.1f} s of learning")
        assert model == expected
        if killed > KILLS / 2:
            return
        seconds /= 2  # the machine had other things to do when the time was taken
    pytest.fail("no process was slow enough to be killed")


def test_ctrl_c_ends_cleanly(data, tmp_path):
    expected, _ = never_killed("command", data, data.parent / "command")
    for attempt in range(8):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        arguments, checkpoint = arguments_of("command", data, folder), folder / "checkpoint"
        process = started(arguments)
        wait_until_it_learns(checkpoint, None, process)
        wait_until_it_learns(checkpoint, look_at(checkpoint), process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
        if said not in ("", "interrupted\n"):  # else it had learned all rows by then
            break
    assert said == f"interrupted; run the same command to continue from {checkpoint}\n"
    assert process.returncode == 130
    assert persistence.describe(checkpoint)["kind"] == "checkpoint"
    assert [path.name for path in folder.iterdir()] == ["checkpoint"]
    finish(started(arguments))
    assert (folder / "model.mm").read_bytes() == expected
