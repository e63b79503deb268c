"""Processes that are killed at any moment, and started again until they are done."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from problems import separable
from streamed import svmlight_text

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")

# How often each run is killed; more for a night.
KILLS = int(os.environ.get("MAXMARGIN_KILLS", "4"))
# Of these, so many hit a process that has not begun to learn.
EARLY = 0.1
# Within a pass there are several blocks, and checkpoints are written all the time.
IN_BLOCKS = """
import sys
import maxmargin
from maxmargin import streams

data, learner, checkpoint, model = sys.argv[1:]
clf = eval(learner, vars(maxmargin), {each: getattr(maxmargin, each) for each in maxmargin.__all__})
source = streams.open(data, block_size=8000)
clf.fit_stream(source, checkpoint=checkpoint, every=100, passes=12)
maxmargin.save(clf, model)
"""
LEARNERS = {
    "AMIRA": "AMIRA()",
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


def script(data, learner):
    """A run of the library, given checkpoint and model."""
    return lambda folder: [
        *[sys.executable, "-W", "error", "-c", IN_BLOCKS, data, learner],
        *[folder / "checkpoint", folder / "model.mm"],
    ]


def command(data):
    """A run of the command."""
    return lambda folder: [
        *[sys.executable, "-m", "maxmargin", "fit", data, "--algorithm", "amira"],
        *["--passes", "1000", "--every", "20000"],
        *["--checkpoint", folder / "checkpoint", "--model", folder / "model.mm"],
    ]


def started(arguments):
    return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for(path, process):
    while not path.exists() and process.poll() is None:
        time.sleep(0.001)


def never_killed(arguments_in, folder):
    """The bytes of the model, and for how long the run was learning."""
    folder.mkdir()
    process = started(arguments_in(folder))
    wait_for(folder / "checkpoint", process)
    began = time.monotonic()
    _, trouble = process.communicate()
    assert process.returncode == 0, trouble
    return (folder / "model.mm").read_bytes(), time.monotonic() - began


def killed_and_restarted(arguments_in, folder, seconds, kills):
    """The bytes of the model, and the number of processes that were killed in the middle."""
    folder.mkdir()
    chance, killed = random.Random(0), 0
    for _ in range(kills):
        process = started(arguments_in(folder))
        if chance.random() < EARLY:
            time.sleep(chance.uniform(0.0, 0.5))
        else:
            wait_for(folder / "checkpoint", process)
            time.sleep(chance.uniform(0.0, seconds))
        process.kill()
        _, trouble = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), trouble
        killed += process.returncode != 0
        if process.returncode == 0:
            break
    process = started(arguments_in(folder))
    _, trouble = process.communicate()
    assert process.returncode == 0, trouble
    return (folder / "model.mm").read_bytes(), killed


@pytest.mark.parametrize("name", ["command", "AMIRA", "Forgetron", "RandomBudgetPerceptron"])
def test_killed_at_any_moment(name, data, tmp_path):
    run = command(data) if name == "command" else script(data, LEARNERS[name])
    expected, seconds = never_killed(run, tmp_path / "never")
    model, killed = killed_and_restarted(run, tmp_path / "often", seconds / KILLS, KILLS)
    print(f"{name}: {killed} processes were killed")
    assert killed > 0
    assert model == expected
