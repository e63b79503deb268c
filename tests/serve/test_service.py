"""A service: what it knows is a function of its log, to the bit, whatever happens in between."""

import errno
import os
import shutil
import stat
import threading
import time
from concurrent.futures import Future

import numpy as np
import pytest

pytest.importorskip("msgspec")

import msgspec
from msgspec.structs import asdict

from maxmargin import (
    ALMA,
    AMIRA,
    NORMA,
    PUMMA,
    AutoMargin,
    Forgetron,
    PassiveAggressive,
    Perceptron,
)
from maxmargin.persistence import ModelFileError
from maxmargin.persistence.checkpoints import CheckpointFile
from maxmargin.serve.bodies import LabelRow
from maxmargin.serve.event_log import Log, LogError, Record, read_log, segments_of
from maxmargin.serve.events import (
    DropShadow,
    Lesson,
    NewShadow,
    Promotion,
    packed,
)
from maxmargin.serve.http_errors import HTTPError
from maxmargin.serve.limits import Limits
from maxmargin.serve.registry import Models
from maxmargin.serve.replaying import Replay
from maxmargin.serve.requests import AwaitLabels, Call, ChangeShadows, Label, Learn
from maxmargin.serve.scored_learner import HalfLearned, ProgressiveStats, ScoredLearner, new_learner
from maxmargin.serve.served_model import ServedModel
from maxmargin.serve.service import READY, Service, decoded_record
from maxmargin.serve.snapshots import Beginning, tree_of
from maxmargin.serve.status import Report, metrics
from maxmargin.streams import Recipe

CLASSES = ["no", "yes"]
LEARNERS = {
    "linear": lambda: AMIRA(),
    "pairs": lambda: PUMMA(),
    "soft": lambda: Perceptron(soft_margin=1.0, class_weight="balanced"),
    "averaged": lambda: Perceptron(average=True),
    "calibrated": lambda: PassiveAggressive(calibration="online"),
    "p-norm": lambda: ALMA(p=4),
    "kernel": lambda: NORMA(kernel="rbf", gamma=0.5),
    "budget": lambda: Forgetron(kernel="rbf", gamma=0.5, budget=20),
    "projected": lambda: AMIRA(kernel="rbf", gamma=0.2, budget=4, on_full="project"),
    "mixture": lambda: AutoMargin(kernel="rbf", n_components=8, random_state=0),
}


def rows_of(size, random, width=4):
    X = random.normal(size=(size, width))
    y = np.where(X[:, 0] + 0.3 * random.normal(size=size) > 0, "yes", "no")
    return X, y.tolist()


def dicts_of(size, random):
    X, labels = rows_of(size, random)
    towns = random.choice(["Rome", "Ulm", "Oslo"], size)
    rows = [
        {"age": float(x[0]), "income": float(x[1]), "town": str(town)}
        for x, town in zip(X, towns, strict=True)
    ]
    return rows, labels


def opened(folder, learner=None, **options):
    beginning = None if learner is None else Beginning.of(learner, options.pop("classes", CLASSES))
    service = Service("default", folder, beginning, **options)
    service.start()
    service.recovered.wait()
    return service


def learn(service, rows, labels, **options):
    ids = options.pop("ids", ())
    return service.ask_and_wait(Learn(Lesson(rows, labels, **options, ids=ids)))


def together(service, *tasks):
    """What becomes of tasks that are written together."""
    for task in tasks:
        task.future = Future()
    service.ask_and_wait(Call(lambda: [service.enqueue(task) for task in tasks]))
    return [task.future.exception() or task.future.result() for task in tasks]


def known(service):
    """All that is known, in bytes that are equal only if it is the same to the bit."""
    content = service.ask_and_wait(Call(service.model.content))
    return bits(content)


def bits(value):
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: bits(each) for key, each in value.items() if key != "names"}
    if isinstance(value, list | tuple):
        return [bits(each) for each in value]
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if hasattr(value, "__learned__"):
        return bits(value.__learned__())
    return repr(value) if isinstance(value, float) else value


def crashed(service, to):
    """The folder as a process that is killed now would leave it, between two writes."""
    service.ask_and_wait(Call(lambda: shutil.copytree(service.folder, to)))
    return to


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_replay_gives_the_model_that_was_never_stopped(tmp_path, kind):
    random = np.random.default_rng(0)
    service = opened(tmp_path / "one", LEARNERS[kind](), limits=Limits(snapshot_events=8))
    service.ask_and_wait(ChangeShadows(NewShadow("other", "perceptron", {})))
    for k, size in enumerate([1, 1, 3, 40, 1, 150, 1, 2]):
        X, labels = rows_of(size, random)
        weights = None if k % 3 else [0.5 + k] * size
        learn(service, X, labels, weights=weights)
        service.ask_and_wait(AwaitLabels([f"p{k}"], [X[0].tolist()], [CLASSES[k % 3 == 0]]))
        if k % 2:
            service.ask_and_wait(Label([LabelRow(f"p{k - 1}", "yes", None)], is_batch=False))
    assert 0 < service.snapshot_sequence < service.model.sequence
    assert (service.model.answers.rows, service.model.answers.mistakes) == (
        4,
        2,
    )  # p0 and p6 were right
    again = opened(crashed(service, tmp_path / "two"))
    assert again.replayed > 0
    assert known(again) == known(service)
    for each in (again, service):
        X, labels = rows_of(30, np.random.default_rng(1))
        learn(each, X, labels)
    assert known(again) == known(service)
    again.close()
    service.close()
    reopened = opened(tmp_path / "one")
    other = opened(tmp_path / "two")
    assert reopened.replayed == other.replayed == 0
    assert known(reopened) == known(other)
    reopened.close()
    other.close()


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_replay_of_many_small_events_is_the_same_too(tmp_path, kind):
    random = np.random.default_rng(3)
    service = opened(tmp_path / "one", LEARNERS[kind]())
    shadow = {"kernel": "rbf", "gamma": 0.2}
    service.ask_and_wait(ChangeShadows(NewShadow("other", "projectron", shadow)))
    for size in [1, 1, 2, 3] * 25:
        learn(service, *rows_of(size, random, width=7))
    again = opened(crashed(service, tmp_path / "two"))
    assert again.replayed == 101
    assert known(again) == known(service)
    again.close()
    service.close()


@pytest.mark.parametrize("with_recipe", [True, False])
def test_the_same_of_dicts_with_a_recipe_and_without(tmp_path, with_recipe):
    random = np.random.default_rng(2)
    learner = AMIRA()
    if with_recipe:
        rows, labels = dicts_of(50, random)
        learner.fit_stream(list(zip(rows, labels, strict=True)), recipe=Recipe())
    service = opened(tmp_path / "one", learner, limits=Limits(snapshot_events=5))
    service.ask_and_wait(ChangeShadows(NewShadow("other", "norma", {"rate": 0.1})))
    for k, size in enumerate([1, 1, 3, 40, 1, 2, 1]):
        rows, labels = dicts_of(size, random)
        learn(service, rows, labels)
        if k == 3:
            service.ask_and_wait(ChangeShadows(Promotion("other")))
    again = opened(crashed(service, tmp_path / "two"))
    assert again.replayed > 0
    assert again.model.live.algorithm == "NORMA"
    assert [*again.model.shadows] == ["amira"]
    assert known(again) == known(service)
    row = {"age": 1.0, "income": 2.0, "town": "Ulm"}
    assert (
        again.model.live.learner.decision_one(row)
        == service.model.live.learner.decision_one(row)
        != 0.0
    )
    again.close()
    service.close()


def test_scores_are_those_of_any_cut_into_blocks():
    random = np.random.default_rng(3)
    truth, wrong = random.integers(0, 3, 5000), random.random(5000) < 0.2
    losses = random.exponential(size=5000)
    whole, parts = ProgressiveStats.of(3), ProgressiveStats.of(3)
    whole.add(truth, wrong, losses)
    start = 0
    while start < 5000:
        stop = start + int(random.integers(1, 400))
        parts.add(truth[start:stop], wrong[start:stop], losses[start:stop])
        start = stop
    assert bits(asdict(whole)) == bits(asdict(parts))
    assert whole.mistakes == wrong.sum()
    assert whole.loss == pytest.approx(losses.sum())
    assert whole.recent_loss() == pytest.approx(losses[-1000:].mean())
    assert len(whole.history) <= 300
    assert bits(asdict(msgspec.convert(asdict(whole), ProgressiveStats))) == bits(asdict(whole))


def drifting_rows(kind, size, random):
    """Two classes that change places after 2300 rows."""
    X, labels = dicts_of(size, random) if kind == "dicts" else rows_of(size, random)
    return X, [CLASSES[label == "no"] if i >= 2300 else label for i, label in enumerate(labels)]


@pytest.mark.parametrize("kind", ["mixture", "averaged", "dicts"])
def test_drift_alarms_are_those_of_any_cut_into_blocks(tmp_path, kind):
    learner = AutoMargin() if kind == "mixture" else Perceptron(average=True)
    random, row = np.random.default_rng(7), 0
    X, labels = drifting_rows(kind, 4500, random)
    service = opened(tmp_path / "one", learner, limits=Limits(snapshot_events=10**6))
    while row < 4500:
        end = row + int(random.choice([1, 30, 400]))
        learn(service, X[row:end], labels[row:end])
        row = end
        if row > 1500 and not service.model.shadows:
            service.ask_and_wait(ChangeShadows(NewShadow("other", "amira", {})))
        if row > 1900 and service.model.live.algorithm != "AMIRA":  # the copy stays the same
            service.ask_and_wait(ChangeShadows(Promotion("other")))
    drift = service.model.drift
    (row,) = drift.alarms
    assert 2300 < row < 2400
    assert drift.frozen is not None  # a second copy
    assert drift.detector.limit == 600.0
    again = opened(crashed(service, tmp_path / "two"))  # in other blocks
    assert again.replayed > 10
    assert known(again) == known(service)
    service.close()
    restarted = opened(tmp_path / "one")  # from a snapshot
    assert restarted.replayed == 0
    for each in (again, restarted):
        learn(each, X[:700], labels[:700])
    assert known(again) == known(restarted)
    for each in (again, restarted):
        each.close()


def test_a_stream_without_a_drift_has_no_alarm_and_a_replay_finds_the_same(tmp_path):
    service = opened(tmp_path / "one", Perceptron(), keep_log=True)
    X, labels = drifting_rows("rows", 2300, np.random.default_rng(1))
    learn(service, X[:1999], labels[:1999])
    learn(service, X[1999:], labels[1999:])
    state = Report(service).state()
    assert (state["drift_alarms"], state["drift"]["alarms"]) == (0, [])
    assert 0.0 < state["drift"]["evidence"] < state["drift"]["limit"]
    X, labels = drifting_rows("rows", 3300, np.random.default_rng(2))
    learn(service, X[2300:], labels[2300:])
    state = Report(service).state()
    assert len(state["drift"]["alarms"]) == 1
    assert "maxmargin_drift_alarms_total" in metrics({"one": Report(service)})
    replay = Replay(crashed(service, tmp_path / "two"), Perceptron(random_state=0))
    service.close()
    replay.run()
    assert replay.report()["drifts"] == state["drift"]["alarms"]


def test_an_event_that_comes_again_is_learned_once_also_after_a_restart(tmp_path):
    service = opened(tmp_path / "one", AMIRA())
    X, labels = rows_of(3, np.random.default_rng(0))
    assert learn(service, X, labels, ids=("a",)) == {
        "learned": 3,
        "duplicate": False,
        "sequence": 1,
    }
    again = {"learned": 0, "duplicate": True, "sequence": 1}
    assert learn(service, X, labels, ids=("a",)) == again
    by_row = Learn(Lesson(X, labels, None, ["x", None, "x"]), by_row=True)
    assert service.ask_and_wait(by_row) == {"learned": 2, "duplicates": 1, "sequence": 2}
    by_row = Learn(Lesson(X, labels, None, ["y", "x", "y"]), by_row=True)
    assert service.ask_and_wait(by_row) == {"learned": 1, "duplicates": 2, "sequence": 3}
    assert service.model.rows == 6
    replayed = opened(crashed(service, tmp_path / "two"))
    service.close()
    restarted = opened(tmp_path / "one")
    for each in (replayed, restarted):
        assert learn(each, X, labels, ids=("a",)) == again
        assert each.model.rows == 6
        each.close()


def test_the_same_id_from_many_threads_is_learned_once(tmp_path):
    service = opened(tmp_path / "one", AMIRA())
    X, labels = rows_of(1, np.random.default_rng(0))
    answers = []

    def send():
        for k in range(20):
            answers.append(learn(service, X, labels, ids=(f"id {k}",)))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert service.model.rows == 20
    assert sum(answer["learned"] for answer in answers) == 20
    by_id = {}
    for answer in answers:
        by_id.setdefault(answer["sequence"], []).append(answer["duplicate"])
    assert all(sorted(each) == [False, True, True, True] for each in by_id.values())
    service.close()


def test_only_the_last_ids_are_known(tmp_path):
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(known_ids=2))
    X, labels = rows_of(1, np.random.default_rng(0))
    for key in ("a", "b", "c", "b", "a"):
        learn(service, X, labels, ids=(key,))
    assert service.model.rows == 4
    assert len(service.model.ids) == 2
    service.close()


def test_a_label_is_learned_exactly_once(tmp_path):
    service = opened(tmp_path / "one", AMIRA())

    def label(key, value):
        return service.ask_and_wait(Label([LabelRow(key, value, None)], is_batch=False))

    service.ask_and_wait(AwaitLabels(["p", "q"], [[1.0, 2.0], {"a": 1.0}], ["yes", "no"]))
    assert label("p", "yes") == {"learned": 1, "duplicate": False, "sequence": 2}
    assert label("p", "yes") == {"learned": 0, "duplicate": True, "sequence": 2}
    with pytest.raises(HTTPError, match="has the label 'yes' already") as refused:
        label("p", "no")
    assert refused.value.status == 409
    with pytest.raises(HTTPError, match="no prediction with the id 'r'") as refused:
        label("r", "no")
    assert refused.value.status == 404
    # Of a retry it is known what became of it.
    service.ask_and_wait(AwaitLabels(["p"], [[7.0, 7.0]], ["no"]))
    assert service.model.sequence == 2
    assert service.model.rows == 1
    is_batch = Label([LabelRow("q", "no", None), LabelRow("r", "no", None)], is_batch=True)
    with pytest.raises(HTTPError, match="'r'"):
        service.ask_and_wait(is_batch)
    assert service.model.waiting.get("q", 0.0) is not None  # nothing of the request was learned
    replayed = opened(crashed(service, tmp_path / "two"))
    assert known(replayed) == known(service)
    replayed.close()
    service.close()


@pytest.mark.parametrize("ways", [("label", "learn"), ("learn", "label"), ("lines", "label")])
@pytest.mark.parametrize("at_once", [False, True])
def test_an_id_is_learned_once_by_whichever_route(tmp_path, ways, at_once):
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=10**6))
    row, others = np.array([[1.0, 2.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])

    def task(way):
        if way == "label":
            return Label([LabelRow("p", "yes", None)], is_batch=False)
        if way == "learn":
            return Learn(Lesson(row, ["yes"], ids=["p"]))
        return Learn(Lesson(others, ["yes", "no"], ids=["p", "q"]), by_row=True)

    service.ask_and_wait(AwaitLabels(["p"], [[1.0, 2.0]], ["yes"]))
    if at_once:
        first, second = together(service, *map(task, ways))
    else:
        first, second = (service.ask_and_wait(task(way)) for way in ways)
    count = 2 if "lines" in ways else 1
    assert first["learned"] == service.model.rows == count
    assert second == {"learned": 0, "duplicate": True, "sequence": 2}
    assert len(service.model.waiting) == 0
    for again in ("lines", "label"):
        found = service.ask_and_wait(task(again))
        assert found["learned"] == (again == "lines" and count == 1)
    # A prediction under an id that has been learned waits for no label.
    service.ask_and_wait(AwaitLabels(["p"], [[5.0, 6.0]], ["no"]))
    assert len(service.model.waiting) == 0
    replayed = opened(crashed(service, tmp_path / "two"))
    assert known(replayed) == known(service)
    assert replayed.ask_and_wait(task("label"))["duplicate"]
    for each in (replayed, service):
        each.close()


def test_predictions_without_labels_are_limited_by_number_size_and_age(tmp_path, monkeypatch):
    limits = Limits(waiting=3, waiting_seconds=100.0, waiting_bytes=2000)
    service = opened(tmp_path / "one", AMIRA(), limits=limits)
    clock = [1000.0]
    monkeypatch.setattr("maxmargin.serve.requests.time.time", lambda: clock[0])
    service.ask_and_wait(AwaitLabels(list("abcd"), [[1.0]] * 4, ["no"] * 4))
    assert len(service.model.waiting) == 3
    assert service.model.waiting.get("a", clock[0]) is None
    clock[0] += 101.0
    with pytest.raises(HTTPError, match="'d'"):
        service.ask_and_wait(Label([LabelRow("d", "yes", None)], is_batch=False))
    service.ask_and_wait(AwaitLabels(["x", "y"], [[1.0] * 200] * 2, ["no"] * 2))
    assert len(service.model.waiting) == 1
    assert service.model.waiting.bytes <= 2000
    service.close()


def test_answers_are_scored_over_crashes_promotions_and_smaller_limits(tmp_path):
    random = np.random.default_rng(5)
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=7), keep_log=True)
    service.ask_and_wait(ChangeShadows(NewShadow("other", "perceptron", {})))
    X, labels = rows_of(60, random)
    answers = random.choice(CLASSES, 60).tolist()
    folders = []
    for k in range(80):
        if k < 60:
            service.ask_and_wait(AwaitLabels([f"p{k}"], [X[k].tolist()], [answers[k]]))
        if k >= 20:
            late = LabelRow(f"p{k - 20}", labels[k - 20], None)
            service.ask_and_wait(Label([late], is_batch=False))
        if k == 40:
            service.ask_and_wait(ChangeShadows(Promotion("other")))
        if k in (5, 39, 70):
            folders.append(crashed(service, tmp_path / f"at {k}"))
    wrong = [answer != label for answer, label in zip(answers, labels, strict=True)]
    assert (service.model.answers.rows, service.model.answers.mistakes) == (60, sum(wrong))
    assert service.model.answers.recent_wrong[:60].tolist() == wrong
    for folder, count in zip(folders, (0, 20, 51), strict=True):
        with_less = opened(folder, limits=Limits(waiting=1))
        assert with_less.model.answers.rows == count
        assert with_less.model.answers.recent_wrong[:count].tolist() == wrong[:count]
        with_less.close()
    # From the log alone, whose predictions are dropped long before their labels come.
    for path in (tmp_path / "at 70").glob("snapshot*"):
        path.unlink()
    begun = opened(tmp_path / "begun", AMIRA())
    begun.close()
    shutil.copy(tmp_path / "begun" / "snapshot.mm", tmp_path / "at 70")
    replayed = opened(tmp_path / "at 70", limits=Limits(waiting=1))
    assert replayed.replayed > 100
    assert bits(asdict(replayed.model.answers)) == bits(asdict(with_less.model.answers))
    replayed.close()
    service.close()


@pytest.mark.parametrize("asked_between", [False, True])
def test_an_id_that_is_used_again_after_it_has_expired_has_its_new_row_after_a_crash_too(
    tmp_path, monkeypatch, asked_between
):
    limits = Limits(waiting_seconds=100.0)
    service = opened(tmp_path / "one", AMIRA(), limits=limits)
    clock = [1000.0]
    monkeypatch.setattr("maxmargin.serve.requests.time.time", lambda: clock[0])

    def label(where, key="p"):
        return where.ask_and_wait(Label([LabelRow(key, "yes", None)], is_batch=False))

    service.ask_and_wait(AwaitLabels(["p", "other"], [[1.0], [3.0]], ["no", "no"]))
    clock[0] += 50.0
    service.ask_and_wait(AwaitLabels(["p"], [[9.0]], ["yes"]))  # a retry, and the first one counts
    assert service.model.sequence == 1
    clock[0] += 51.0
    if asked_between:
        with pytest.raises(HTTPError, match="'p'"):
            label(service)
    early = opened(crashed(service, tmp_path / "early"), limits=limits)
    for each in (service, early):
        each.ask_and_wait(AwaitLabels(["p"], [[2.0]], ["yes"]))
        one = each.model.waiting.get("p", clock[0])
        assert (bytes(one.row), one.time, one.answer) == (b"[2.0]", clock[0], 1)
    again = opened(crashed(service, tmp_path / "two"), limits=limits)
    assert known(again) == known(service) == known(early)
    assert again.model.waiting.bytes == service.model.waiting.bytes
    assert len(again.model.waiting) == 1
    for each in (service, again, early):
        assert label(each)["learned"] == 1
        with pytest.raises(HTTPError, match="'other'"):
            label(each, "other")
    assert known(again) == known(service) == known(early)
    replayed = opened(crashed(again, tmp_path / "three"), limits=limits)
    assert known(replayed) == known(service)
    for each in (replayed, again, early, service):
        each.close()


def test_what_is_refused_changes_nothing_and_is_refused_again(tmp_path):
    service = opened(tmp_path / "one", AMIRA())
    X, labels = rows_of(5, np.random.default_rng(0))
    learn(service, X, labels)
    before = known(service)
    huge = X.copy()
    huge[3] = 1e300
    for rows in (huge, X[:, :2].copy(), [{"a": 1.0}] * 5):
        with pytest.raises(HTTPError) as refused:
            learn(service, rows, labels, ids=("again",))
        assert refused.value.status == 422
    after = known(service)
    assert after["sequence"] == 4
    same = ("live", "shadows", "events", "rows", "ids")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert learn(service, X, labels, ids=("again",))["learned"] == 5
    replayed = opened(crashed(service, tmp_path / "two"))
    assert known(replayed) == known(service)
    replayed.close()
    service.close()


def test_one_refused_lesson_does_not_keep_others_of_its_group_from_being_learned(tmp_path):
    service = opened(tmp_path / "one", AMIRA())
    plain = opened(tmp_path / "plain", AMIRA())
    X, labels = rows_of(6, np.random.default_rng(0))
    bad = np.full((1, 4), 1e300)
    answers = []
    held, go = threading.Event(), threading.Event()

    def hold():
        held.set()
        go.wait()

    blocked = threading.Thread(target=service.ask_and_wait, args=(Call(hold),))
    blocked.start()
    held.wait()

    def send(rows, label):
        try:
            answers.append(learn(service, rows, [label])["learned"])
        except HTTPError as refusal:
            answers.append(refusal.status)

    threads = []
    for k in range(6):
        for rows in (X[k : k + 1], bad) if k == 3 else (X[k : k + 1],):
            thread = threading.Thread(target=send, args=(rows, labels[k]))
            waiting = len(service.queue)
            thread.start()
            while len(service.queue) == waiting:
                thread.join(0.001)
            threads.append(thread)
    go.set()
    for thread in [*threads, blocked]:
        thread.join()
    for k in range(6):
        learn(plain, X[k : k + 1], [labels[k]])
    assert sorted(answers) == [1] * 6 + [422]
    assert bits(tree_of(service.model.live)) == bits(tree_of(plain.model.live))
    assert len(list(read_log(service.folder / "log"))) == 7
    for each in (service, plain):
        each.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_full_disk_refuses_events_and_the_model_goes_on_when_there_is_room(
    tmp_path, monkeypatch, code
):
    service = opened(tmp_path / "one", AMIRA())
    X, labels = rows_of(4, np.random.default_rng(0))
    learn(service, X, labels)
    before = known(service)

    def full(*_):
        raise OSError(code, "No room")

    with monkeypatch.context() as patched:
        patched.setattr("maxmargin.serve.event_log.os.write", full)
        with pytest.raises(HTTPError, match="No room") as refused:
            learn(service, X, labels, ids=("a",))
        assert refused.value.status == 503
        assert refused.value.retry_after
        assert not service.is_healthy()
    assert known(service) == before
    assert learn(service, X, labels, ids=("a",))["sequence"] == 2
    assert service.is_healthy()
    replayed = opened(crashed(service, tmp_path / "two"))
    assert known(replayed) == known(service)
    replayed.close()
    service.close()


def test_a_snapshot_that_cannot_be_written_is_tried_again(tmp_path, monkeypatch):
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=1))
    monkeypatch.setattr("maxmargin.serve.service.SECONDS_TO_RETRY", 0.0)
    X, labels = rows_of(4, np.random.default_rng(0))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No room")

    with monkeypatch.context() as patched:
        patched.setattr("maxmargin.persistence.checkpoints.write_file", full)
        learn(service, X, labels)
        service.ask_and_wait(Call(lambda: None))
        assert service.snapshot_sequence == 0
    learn(service, X, labels)
    service.ask_and_wait(Call(lambda: None))
    assert service.snapshot_sequence == 2
    service.close()


@pytest.mark.parametrize("keep", [True, False])
def test_the_log_is_compacted_behind_the_snapshot_before_the_last_unless_kept(tmp_path, keep):
    limits = Limits(snapshot_events=5, segment_bytes=300)
    service = opened(tmp_path / "one", AMIRA(), limits=limits, keep_log=keep)
    random = np.random.default_rng(0)
    for _ in range(40):
        learn(service, *rows_of(1, random))
    first = segments_of(service.log.folder)[0].first
    assert (first == 1) is keep
    assert first <= service.snapshot_sequence - 5 + 1
    two = crashed(service, tmp_path / "two")
    snapshot = two / "snapshot.mm"
    snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"?")
    with pytest.warns(RuntimeWarning, match="The checkpoint before it is whole"):
        again = opened(two)  # by the snapshot before, and the log behind that
    assert known(again) == known(service)
    again.close()
    service.close()


def test_a_log_that_is_damaged_is_not_served(tmp_path):
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=10**6))
    random = np.random.default_rng(0)
    for _ in range(5):
        learn(service, *rows_of(1, random))
    two = crashed(service, tmp_path / "two")
    service.close()
    (segment,) = segments_of(two / "log")
    data = bytearray(segment.path.read_bytes())
    data[100] ^= 1
    segment.path.write_bytes(data)
    again = opened(two)
    assert again.status == "failed"
    assert isinstance(again.failure, LogError)
    with pytest.raises(HTTPError, match="damaged at byte") as refused:
        learn(again, *rows_of(1, random))
    assert refused.value.status == 503
    (two / "snapshot.mm").unlink()
    (two / "snapshot.mm.previous").unlink(missing_ok=True)
    for learner in (AMIRA(), None):
        with pytest.raises(LogError, match=r"no snapshot\.mm"):
            opened(two, learner)


def test_other_models_than_that_of_the_folder_are_refused(tmp_path):
    opened(tmp_path / "one", AMIRA()).close()
    with pytest.raises(ValueError, match="other algorithm, AMIRA"):
        opened(tmp_path / "one", PUMMA())
    with pytest.raises(ValueError, match="other classes"):
        opened(tmp_path / "one", AMIRA(), classes=["a", "b"])
    with pytest.raises(ValueError, match="other parameters"):
        opened(tmp_path / "one", AMIRA(soft_margin=1.0))
    opened(tmp_path / "one", AMIRA()).close()
    with pytest.raises(ValueError, match="no state yet"):
        opened(tmp_path / "two")


def test_shadows_come_and_go_and_are_promoted(tmp_path):
    service = opened(tmp_path / "one", AMIRA(), shadows={"quick": ("perceptron", {})})
    while not service.model.shadows:
        time.sleep(0.001)
    X, labels = rows_of(60, np.random.default_rng(0))
    learn(service, X, labels)
    alone = Perceptron(random_state=0).partial_fit(X, labels, classes=CLASSES)
    assert np.array_equal(service.model.shadows["quick"].learner.coef_, alone.coef_)

    def change(event):
        return service.ask_and_wait(ChangeShadows(event))

    for event, status in (
        (NewShadow("quick", "amira", {}), 409),
        (NewShadow("x", "nothing", {}), 422),
        (NewShadow("x", "amira", {"nothing": 1}), 422),
        (NewShadow("x", "noca", {}), 422),
        (NewShadow("x", "norma", {"kernel": "rbf"}), 422),  # gamma="scale" needs all rows
        (DropShadow("x"), 404),
        (Promotion("x"), 404),
    ):
        with pytest.raises(HTTPError) as refused:
            change(event)
        assert refused.value.status == status, refused.value
    promoted = change(Promotion("quick", ("key",)))
    assert promoted["duplicate"] is False
    assert change(Promotion("quick", ("key",))) == {**promoted, "duplicate": True}
    assert service.model.live.algorithm == "Perceptron"
    assert [*service.model.shadows] == ["amira"]
    change(NewShadow("more", "amira", {}))
    change(Promotion("more"))
    assert [*service.model.shadows] == ["amira", "perceptron"]
    change(DropShadow("amira"))
    learn(service, X, labels)
    replayed = opened(crashed(service, tmp_path / "two"), shadows={"quick": ("perceptron", {})})
    assert known(replayed) == known(service)  # and the shadow is not made again
    replayed.close()
    service.close()


def test_shadows_in_the_log_are_there_whatever_the_limits_are_now(tmp_path):
    service = opened(tmp_path / "one", AMIRA())
    for name in ("a", "b"):
        service.ask_and_wait(ChangeShadows(NewShadow(name, "perceptron", {})))
    service.ask_and_wait(ChangeShadows(Promotion("b")))
    two = crashed(service, tmp_path / "two")
    service.close()
    again = opened(two, limits=Limits(shadows=1))
    assert again.model.live.algorithm == "Perceptron"
    assert [*again.model.shadows] == ["a", "amira"]
    with pytest.raises(HTTPError, match="2 shadows already"):
        again.ask_and_wait(ChangeShadows(NewShadow("c", "perceptron", {})))
    again.close()


def test_a_shadow_that_no_memory_can_hold_is_refused(tmp_path):
    service = opened(tmp_path / "one", AMIRA())
    huge = {"kernel": "rbf", "gamma": 0.5, "budget": 10**13}
    with pytest.raises(HTTPError, match="at most 65,536 rows"):
        service.ask_and_wait(ChangeShadows(NewShadow("a", "perceptron", huge)))
    learn(service, *rows_of(1, np.random.default_rng(0)))
    assert (service.status, service.model.sequence) == (READY, 1)
    service.close()


def test_who_asked_what_a_service_failed_by_is_told(tmp_path, monkeypatch):
    service = opened(tmp_path / "one", AMIRA())

    def fails(*_):
        raise HalfLearned("no room")

    monkeypatch.setattr(service.model.live, "learn", fails)
    with pytest.raises(HTTPError, match="has failed: no room"):
        learn(service, *rows_of(1, np.random.default_rng(0)))
    assert service.status == "failed"


def test_a_replay_by_another_learner_takes_the_snapshot_that_is_whole(tmp_path):
    service = opened(tmp_path / "one", AMIRA(), keep_log=True)
    learn(service, *rows_of(30, np.random.default_rng(0)))
    service.close()
    snapshot = tmp_path / "one" / "snapshot.mm"
    snapshot.write_bytes(snapshot.read_bytes()[:-9])
    replay = Replay(tmp_path / "one", Perceptron())
    replay.run()
    assert replay.model.rows == 30
    (tmp_path / "one" / "snapshot.mm.previous").unlink()
    with pytest.raises(ModelFileError, match="damaged"):
        Replay(tmp_path / "one", Perceptron())


def test_a_full_queue_refuses_more(tmp_path):
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(queue=2))
    held, go = threading.Event(), threading.Event()

    def hold():
        held.set()
        go.wait()

    threads = [threading.Thread(target=service.ask_and_wait, args=(Call(hold),))]
    threads[0].start()
    held.wait()
    for _ in range(2):
        threads.append(threading.Thread(target=service.ask_and_wait, args=(Call(int),)))
        threads[-1].start()
    while len(service.queue) < 2:
        threads[0].join(0.001)
    with pytest.raises(HTTPError, match="faster") as refused:
        service.ask_and_wait(Call(int))
    assert (refused.value.status, refused.value.retry_after) == (429, 1)
    stopping = threading.Thread(target=service.close)
    stopping.start()
    while service.status == READY:
        stopping.join(0.001)
    with pytest.raises(HTTPError, match="stops"):
        service.ask_and_wait(Call(int))
    go.set()
    for thread in [*threads, stopping]:
        thread.join()  # what had come is finished
    assert service.status == "stopped"


def poisoned(service, event):
    """Write an event to the log that its route would refuse."""
    service.ask_and_wait(Call(lambda: service.log.append([event.encoded()])))
    return service


UNBUILDABLE = {
    "costs": ("amira", {"costs": [[0.0, 1e300], [1e300, 0.0]]}),
    "shape": ("amira", {"costs": [1.0, 2.0]}),
    "value": ("amira", {"soft_margin": "much"}),
    "name": ("nothing", {}),
}


@pytest.mark.parametrize("case", UNBUILDABLE)
def test_a_shadow_that_cannot_be_built_is_refused_before_it_is_logged_and_on_replay(tmp_path, case):
    event = NewShadow("x", *UNBUILDABLE[case])
    service = opened(tmp_path / "one", AMIRA())
    with pytest.raises(HTTPError) as refused:
        service.ask_and_wait(ChangeShadows(event))
    assert (refused.value.status, service.model.sequence, service.status) == (422, 0, READY)
    two = crashed(poisoned(service, event), tmp_path / "two")
    service.close()
    again = opened(two)
    assert (again.status, again.model.sequence, [*again.model.shadows]) == (READY, 1, [])
    assert learn(again, *rows_of(3, np.random.default_rng(0)))["sequence"] == 2
    again.close()


OTHER_CLASSES = {
    "fewer": (
        "amira",
        {"costs": [[1.0, 2.0], [2.0, 1.0]]},
        "'costs' .* 2 classes, but there are 3",
    ),
    "more": ("amira", {"costs": np.ones((4, 4)).tolist()}, "for 4 classes, but there are 3"),
    "each for itself": (
        "amira",
        {"costs": np.ones((3, 3)).tolist(), "multiclass": "ovr"},
        "'costs' parameter is for three or more classes that are learned together",
    ),
    "weights": (
        "passive-aggressive",
        {"C": 1.0, "class_weight": {"d": 2.0}},
        "class_weight has 'd', which is not among",
    ),
}


@pytest.mark.parametrize("case", OTHER_CLASSES)
def test_a_shadow_for_other_classes_is_refused_before_it_is_logged(tmp_path, case):
    algorithm, parameters, message = OTHER_CLASSES[case]
    service = opened(tmp_path / "one", AMIRA(), classes=["a", "b", "c"])
    with pytest.raises(HTTPError, match=message) as refused:
        service.ask_and_wait(ChangeShadows(NewShadow("x", algorithm, parameters)))
    assert (refused.value.status, service.model.sequence, [*service.model.shadows]) == (422, 0, [])
    service.close()
    with pytest.raises(ValueError, match=message):  # nor does a model begin with such
        Beginning.of(new_learner(algorithm, parameters), ["a", "b", "c"])


def test_a_shadow_with_costs_for_all_classes_learns(tmp_path):
    service = opened(tmp_path / "one", AMIRA(), classes=["a", "b", "c"])
    for name, algorithm, parameters in (
        ("costs", "amira", {"costs": (1.0 + np.ones((3, 3))).tolist()}),
        ("weights", "passive-aggressive", {"C": 1.0, "class_weight": {"a": 2.0}}),
        ("vote", "fixed-share", {}),
    ):
        service.ask_and_wait(ChangeShadows(NewShadow(name, algorithm, parameters)))
    learn(service, np.eye(3), ["a", "b", "c"])
    assert [(each.refused, each.stats.rows) for each in service.model.shadows.values()] == [
        (0, 3)
    ] * 3
    service.close()


def test_what_the_learners_would_keep_is_limited_before_an_event_is_logged(tmp_path):
    three = ["a", "b", "c"]
    limits = Limits(numbers=3000, columns=2000)
    service = opened(tmp_path / "one", AMIRA(), classes=three, limits=limits)
    wide = {f"x{k}": 1.0 for k in range(1001)}
    for rows in (np.ones((1, 1001)), [wide], [{"x": f"{k}"} for k in range(1001)]):
        with pytest.raises(HTTPError, match="would keep 3,003 numbers") as refused:
            learn(service, rows, ["a"] * len(rows))
        assert refused.value.status == 413
    service.ask_and_wait(AwaitLabels(["p"], [wide], ["a"]))
    with pytest.raises(HTTPError, match="3,003 numbers"):
        service.ask_and_wait(Label([LabelRow("p", "b", None)], is_batch=False))
    assert service.model.sequence == 1  # that of the prediction
    learn(service, [{"x1": 1.0}, {f"x{k}": 1.0 for k in range(600)}], ["a", "b"])
    with pytest.raises(HTTPError, match="3,600 numbers"):
        service.ask_and_wait(ChangeShadows(NewShadow("x", "perceptron", {})))
    budgeted = {"kernel": "rbf", "gamma": 1.0, "budget": 10}
    with pytest.raises(HTTPError, match="20,100 numbers"):  # 3 (600 + 10 (600 + 10))
        service.ask_and_wait(ChangeShadows(NewShadow("x", "forgetron", budgeted)))
    learn(service, [{f"x{k}": 2.0 for k in range(600)}] * 3, three)  # which are known
    with pytest.raises(HTTPError, match="2,001 columns; at most 2,000"):
        learn(service, [{f"y{k}": 1.0 for k in range(1401)}], ["a"])
    again = opened(crashed(service, tmp_path / "two"), limits=Limits(numbers=1))
    assert known(again) == known(service)  # limits are for what is new
    again.close()
    service.close()


def test_a_shadow_that_runs_out_of_memory_is_dropped_and_the_live_model_goes_on(
    tmp_path, monkeypatch
):
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=10**6))
    for name in ("x", "y"):
        service.ask_and_wait(ChangeShadows(NewShadow(name, "perceptron", {})))
    random = np.random.default_rng(0)
    learn(service, *rows_of(5, random))

    def fails(*_):
        raise MemoryError("no room")

    with monkeypatch.context() as short:
        short.setattr(service.model.shadows["x"], "learn", fails)
        assert learn(service, *rows_of(5, random))["learned"] == 5
    assert (service.status, [*service.model.shadows]) == (READY, ["y"])
    with pytest.raises(HTTPError, match="no shadow 'x'"):
        service.ask_and_wait(ChangeShadows(Promotion("x")))
    learn(service, *rows_of(5, random))
    replayed = opened(crashed(service, tmp_path / "two"))
    assert known(replayed) == known(service)  # with memory enough for both
    service.ask_and_wait(ChangeShadows(NewShadow("x", "romma", {})))
    learn(service, *rows_of(5, random))
    service.ask_and_wait(ChangeShadows(Promotion("x")))
    two = crashed(service, tmp_path / "three")
    replayed.close()
    replayed = opened(two)
    assert known(replayed) == known(service)
    replayed.close()
    service.close()
    assert [*opened(tmp_path / "one").model.shadows] == ["y", "amira"]


@pytest.mark.parametrize("large", [{0}, {3}, {5}, {0, 1}, {2, 4}, {0, 1, 2, 3, 4, 5}])
def test_an_event_without_memory_is_refused_and_leaves_no_trace(tmp_path, monkeypatch, large):
    limits = Limits(snapshot_events=10**6)
    service = opened(tmp_path / "one", AMIRA(), limits=limits)
    plain = opened(tmp_path / "plain", AMIRA(), limits=limits)
    for each in (service, plain):
        each.ask_and_wait(ChangeShadows(NewShadow("other", "perceptron", {})))
    X, labels = rows_of(20, np.random.default_rng(0))
    for each in (service, plain):
        learn(each, X[6:], labels[6:])
    real = ScoredLearner.learn

    def fails(scored, rows, *rest):
        if scored.algorithm == "AMIRA" and any((X[k] == rows).all(axis=1).any() for k in large):
            raise MemoryError("no room")
        real(scored, rows, *rest)

    def lesson(k):
        return Learn(Lesson(X[k : k + 1], [labels[k]], ids=[f"e{k}"]))

    with monkeypatch.context() as short:
        short.setattr(ScoredLearner, "learn", fails)
        found = together(service, *map(lesson, range(6)))
    for k, each in enumerate(found):
        if k in large:
            assert (each.status, each.retry_after) == (503, 1)
            assert "does not have the memory for this request: no room" in each.reason
        else:
            assert each == plain.ask_and_wait(lesson(k))  # with the same number in the log
    assert service.is_healthy()
    assert known(service) == known(plain)
    for each in (service, plain):
        for k in sorted(large):  # there is memory again
            assert not each.ask_and_wait(lesson(k))["duplicate"]
    assert known(service) == known(plain)
    again = opened(crashed(service, tmp_path / "two"), limits=limits)
    assert known(again) == known(plain)
    for each in (service, plain, again):
        each.close()


@pytest.mark.parametrize("place", ["score_then_learn", "counts"])
def test_a_lack_of_memory_after_the_learner_has_learned_stops_the_service(
    tmp_path, monkeypatch, place
):
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=10**6))
    plain = opened(tmp_path / "plain", AMIRA(), limits=Limits(snapshot_events=10**6))
    X, labels = rows_of(2, np.random.default_rng(0))
    for each in (service, plain):
        learn(each, X[:1], labels[:1])
    real = AMIRA.score_then_learn

    def late(learner, *rest):
        real(learner, *rest)
        raise MemoryError("no room")

    def fails(*_):
        raise MemoryError("no room")

    with monkeypatch.context() as short:
        if place == "score_then_learn":
            short.setattr(AMIRA, "score_then_learn", late)
        else:
            short.setattr(ProgressiveStats, "add", fails)
        with pytest.raises(HTTPError, match="has failed: there was no memory to"):
            learn(service, X[1:], labels[1:])
    service.close()
    learn(plain, X[1:], labels[1:])
    again = opened(tmp_path / "one")  # which was written, though nobody was told
    assert known(again) == known(plain)
    for each in (again, plain):
        each.close()


def test_a_lack_of_memory_elsewhere_refuses_the_request(tmp_path, monkeypatch):
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=10**6))
    rows = rows_of(1, np.random.default_rng(0))
    learn(service, *rows)
    before = known(service)

    def fails(*_):
        raise MemoryError

    for holder, name in ((ServedModel, "check"), (ServedModel, "content"), (Log, "append")):
        with monkeypatch.context() as short:
            short.setattr(holder, name, fails)
            task = Call(service.model.content) if name == "content" else Learn(Lesson(*rows))
            with pytest.raises(HTTPError, match="memory for this request") as refusal:
                service.ask_and_wait(task)
        assert refusal.value.status == 503
        assert service.is_healthy()
        assert known(service) == before
    with monkeypatch.context() as short:
        short.setattr(ServedModel, "content", fails)
        service.ask_and_wait(Call(service.write_snapshot))  # is tried again later
    assert service.snapshot_sequence == 0
    learn(service, *rows)
    service.close()


def test_a_promoted_shadow_that_runs_out_of_memory_on_replay_is_an_error(tmp_path, monkeypatch):
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=10**6))
    service.ask_and_wait(ChangeShadows(NewShadow("x", "perceptron", {})))
    learn(service, *rows_of(5, np.random.default_rng(0)))
    service.ask_and_wait(ChangeShadows(Promotion("x")))
    two = crashed(service, tmp_path / "two")
    service.close()
    real = ScoredLearner.learn

    def fails(scored, *rest):
        if scored.algorithm == "Perceptron":
            raise MemoryError("no room")
        real(scored, *rest)

    monkeypatch.setattr(ScoredLearner, "learn", fails)
    again = opened(two)
    assert again.status == "failed"  # never another live learner than the promoted one
    assert "the shadow x, which was promoted" in str(again.failure)
    monkeypatch.undo()
    again = opened(two)
    assert (again.status, again.model.live.algorithm) == (READY, "Perceptron")
    again.close()


EVENTS = {
    "kind": b"?\x02\0\0\0{}",
    "short": b"L",
    "json": b"L\x02\0\0\0{]",
    "labels": packed(b"L", {"x": [{"a": 1.0}], "y": ["no", "yes"]}),
    "rows": packed(b"L", {"n": [1], "y": ["no"]}, bytes(8)),
    "lists": packed(b"L", {"x": [[1.0]], "y": ["no"]}),
    "weights": packed(b"L", {"x": [{"a": 1.0}], "y": ["no"], "w": [1.0, 2.0]}),
    "ids": packed(b"L", {"x": [{"a": 1.0}], "y": ["no"], "i": [["a"]]}),
    "prediction": packed(b"L", {"x": [{"a": 1.0}], "y": ["no"], "p": ["a"]}),
    "waiting": packed(b"W", {"predictions": [["a", 1.0, 1.0, 0]]}),
    "time": packed(b"W", {"predictions": [["a", [1.0], "now", 0]]}),
    "shadow": packed(b"S", {"name": ["x"], "algorithm": "amira", "parameters": {}}),
    "fields": packed(b"P", {"nothing": 1}),
}


@pytest.mark.parametrize("case", EVENTS)
def test_an_event_that_nobody_could_have_sent_is_an_error_that_names_file_and_event(tmp_path, case):
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=10**6))
    learn(service, *rows_of(2, np.random.default_rng(0)))
    service.ask_and_wait(Call(lambda: service.log.append([EVENTS[case]])))
    two = crashed(service, tmp_path / "two")
    service.close()
    again = opened(two)
    assert isinstance(again.failure, LogError)
    assert f"{1:020d}.log: event 2 cannot be read" in str(again.failure)
    replay = Replay(two, Perceptron())
    with pytest.raises(LogError, match="event 2 cannot be read"):
        replay.run()


def test_a_table_with_offsets_outside_its_text_is_an_error_on_replay(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"town": ["Rom", "Ulm"], "age": [1.0, 2.0]})
    offsets = np.array([0, 3, 6], "<i4").tobytes()
    body = Lesson(table, ["no", "yes"]).encoded()
    assert body.count(offsets) == 1
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=10**6))
    bad = body.replace(offsets, np.array([0, -(10**9), 6], "<i4").tobytes())
    service.ask_and_wait(Call(lambda: service.log.append([bad])))
    two = crashed(service, tmp_path / "two")
    service.close()
    again = opened(two)
    assert isinstance(again.failure, LogError)
    assert "event 1 cannot be read" in str(again.failure)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_table_in_a_log_is_refused_before_it_is_large(
    tmp_path, monkeypatch, compression
):
    pa = pytest.importorskip("pyarrow")
    table, sink = pa.table({"x": np.zeros(10**5)}), pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    small = sink.getvalue().to_pybytes()
    assert len(small) < 20_000
    body = packed(b"L", {"y": ["no"] * 10**5}, small)
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=10**6))
    service.ask_and_wait(Call(lambda: service.log.append([body])))
    two = crashed(service, tmp_path / "two")
    service.close()
    read, real = [], pa.ipc.open_stream
    monkeypatch.setattr(pa.ipc, "open_stream", lambda *rest: read.append(1) or real(*rest))
    again = opened(two, limits=Limits(table_bytes=10**5))
    assert isinstance(again.failure, LogError)
    assert "event 1 cannot be read: the table has 8" in str(again.failure)
    assert "at most 100,000 are taken. Raise the limit" in str(again.failure)
    assert not read
    with pytest.raises(LogError, match="at most 1 are taken"):  # rows without labels
        decoded_record(two / "log", Record(1, packed(b"L", {"y": ["no"]}, small)))
    assert not read
    again = opened(two, limits=Limits(table_bytes=10**6))  # as that of any other
    assert (again.status, again.model.rows) == (READY, 10**5)
    again.close()


def test_tables_of_a_service_are_read_whatever_the_limits_are_now(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"x": np.arange(100.0), "is": [True, False] * 50})
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=10**6))
    learn(service, table, ["no", "yes"] * 50)
    two = crashed(service, tmp_path / "two")
    service.close()
    again = opened(two, limits=Limits(rows=1, values=1, table_bytes=1))
    assert (again.status, again.model.sequence) == (READY, 1)
    again.close()


def put(content, *path, value):
    for name in path[:-1]:
        content = content[name]
    content[path[-1]] = value


TAMPERED = {
    "step": ("live", "stats", "step", -10),
    "step 0": ("live", "stats", "step", 0),
    "rows": ("live", "stats", "rows", -1),
    "counts": ("live", "stats", "counts", np.array([5])),
    "sum": ("live", "stats", "counts", np.array([1, 1])),
    "drift": ("drift", "detector", "drawn", -5),
    "alarms": ("drift", "alarms", [-1]),
    "history": ("live", "stats", "history", [[1, "x", 0.5, 0.5]]),
    "refused": ("live", "refused", -1),
    "shadow": ("shadows", "other", "stats", "mistakes", -100),
    "answers": ("answers", "mistakes", 7),
    "classes": ("classes", np.array(["no", "no"])),
    "names": ("names", [3]),
    "ids": ("ids", "[[1, 2]]"),
    "labelled": ("labelled", '[["a", 2]]'),
    "waiting": ("waiting", '[["a", [1.0], "now", 0]]'),
    "deep": ("waiting", '[["a", ' + "[" * 3000 + "]" * 3000 + ", 1.0, 0]]"),
    "origin": ("origin", {}),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_a_snapshot_with_values_that_cannot_be_is_an_error_that_names_it(tmp_path, case):
    service = opened(tmp_path / "one", AMIRA(), limits=Limits(snapshot_events=10**6))
    service.ask_and_wait(ChangeShadows(NewShadow("other", "perceptron", {})))
    learn(service, *rows_of(30, np.random.default_rng(0)))
    content = service.ask_and_wait(Call(service.model.content))
    service.close()
    *path, value = TAMPERED[case]
    put(content, *path, value=value)
    file = CheckpointFile(tmp_path / "one" / "snapshot.mm")
    file.path.unlink()
    file.replace(content)
    file.previous.unlink(missing_ok=True)
    with pytest.raises(ModelFileError, match=r"snapshot\.mm: the file is inconsistent"):
        opened(tmp_path / "one")


def test_a_snapshot_that_is_a_link_is_refused_and_its_target_stays(tmp_path):
    opened(tmp_path / "one", AMIRA()).close()
    somebody = tmp_path / "somebody.mm"
    (tmp_path / "one" / "snapshot.mm").rename(somebody)
    (tmp_path / "one" / "snapshot.mm").symlink_to(somebody)
    with pytest.raises(LogError, match=r"snapshot\.mm is a link"):
        opened(tmp_path / "one")
    assert [path.name for path in tmp_path.glob("somebody*")] == ["somebody.mm"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("place", ["os.mkdir", "os.fsync", "os.open"])
def test_a_disk_that_cannot_be_written_to_is_said_when_a_server_starts(
    tmp_path, monkeypatch, code, place
):
    def fails(*_, **__):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as full:
        full.setattr(place, fails)
        with pytest.raises(OSError, match="needs a disk that can be written to") as caught:
            Models(tmp_path / "data", {"m": Beginning.of(AMIRA(), CLASSES)})
    assert (caught.value.errno, caught.value.filename) == (code, str(tmp_path / "data"))
    assert os.strerror(code) in str(caught.value)
    models = Models(tmp_path / "data", {"m": Beginning.of(AMIRA(), CLASSES)})  # there is room
    models.start()
    models.close()


def test_a_folder_cannot_forge_names_of_models(tmp_path):
    Models(tmp_path / "all", {"good": Beginning.of(AMIRA(), CLASSES)}).close()
    forged = 'x"} 1\nmaxmargin_up{model="good'
    shutil.copytree(tmp_path / "all" / "good", tmp_path / "all" / forged)
    with pytest.raises(ValueError, match="a model cannot be called that"):
        Models(tmp_path / "all", {})
    shutil.rmtree(tmp_path / "all" / forged)
    models = Models(tmp_path / "all", {})
    text = metrics({forged: Report(models.services["good"])})
    models.close()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines
    escaped = 'model="x\\"} 1\\nmaxmargin_up{model=\\"good"'
    assert all(escaped in line for line in lines)


def test_folders_logs_and_snapshots_are_for_their_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        models = Models(tmp_path / "all", {"one": Beginning.of(AMIRA(), CLASSES)})
        models.start()
        service = models.services["one"]
        service.recovered.wait()
        learn(service, *rows_of(5, np.random.default_rng(0)))
        models.close()  # which writes another snapshot
    finally:
        os.umask(before)
    found = {
        path.relative_to(tmp_path).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in tmp_path.rglob("*")
    }
    folders = {"all", "all/one", "all/one/log"}
    assert folders < found.keys()
    assert {"all/one/snapshot.mm", "all/one/snapshot.mm.previous"} < found.keys()
    for name, mode in found.items():
        assert mode == (0o700 if name in folders else 0o600), name


def test_permissions_that_somebody_chose_stay(tmp_path):
    opened(tmp_path / "one", AMIRA()).close()
    (tmp_path / "one").chmod(0o750)
    (tmp_path / "one" / "snapshot.mm").chmod(0o640)
    service = opened(tmp_path / "one")
    learn(service, *rows_of(5, np.random.default_rng(0)))
    service.close()
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "one" / "snapshot.mm").stat().st_mode) == 0o640
