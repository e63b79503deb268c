"""What is kept: events, snapshots, rebuilds, disks that are full, versions, backups."""

import shutil
import sqlite3
import subprocess

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("msgspec")

from serve.asking import ask, learn, lines
from serve.test_application import CLASSES, rows_and_labels

import maxmargin.serve.database
from maxmargin import AMIRA, AutoMargin, PassiveAggressive, Perceptron
from maxmargin.serve import create_app
from maxmargin.serve.beginnings import as_file
from maxmargin.serve.database import FILE, Database
from maxmargin.serve.replaying import Replay

LEARNERS = [
    AMIRA(),
    AutoMargin(),
    PassiveAggressive(kernel="rbf", gamma=0.5),
    Perceptron(kernel="rbf", gamma=0.5, budget=5),
]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


def started(folder, *given, **options):
    app = create_app(folder, *given, **options)
    app.wait(60)
    return app


def taught(folder, learner=None, **options):
    """An application that has learned in all ways."""
    app = started(folder, learner or AMIRA(), classes=CLASSES, **options)
    rows, labels = rows_and_labels(40)
    if learner is not None and learner.get_params().get("kernel") == "rbf":
        rows = [[float(row["clicks"]), 2.0 * (row["from"] == "ad")] for row in rows]
    for k in range(10):
        learn(app, rows[k], labels[k], id=f"first-{k}", weight=0.5 + k)
    ask(app, "POST", "/learn", {"rows": rows[10:20], "labels": labels[10:20]})
    ask(app, "POST", "/predict", {"rows": rows[20:25], "ids": [f"v{k}" for k in range(5)]})
    for k in range(3):
        ask(app, "POST", "/label", {"id": f"v{k}", "label": labels[20 + k]})
    body = lines(*({"row": r, "label": y} for r, y in zip(rows[30:], labels[30:], strict=True)))
    ask(app, "POST", "/learn", body, "application/x-ndjson")
    return app


def test_commits_are_synchronized(folder):
    """So that power cuts lose nothing that SQLite has committed."""
    database = Database(folder)
    assert database._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    database.close()


def kept(app):
    """The model and what is counted, but for what belongs to this start."""
    state = ask(app, "GET", "/model").json
    names = ("sequence", "events", "rows", "mistakes", "loss", "history", "answers", "waiting")
    return ask(app, "GET", "/model/file").body, {name: state[name] for name in names}


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("last", ["snapshot", "events"])
def test_a_server_goes_on_where_it_stopped(folder, learner, last):
    app = taught(folder, learner)
    before = kept(app)
    app.close()
    if last == "events":
        with sqlite3.connect(folder / FILE) as connection:
            connection.execute("DELETE FROM snapshots WHERE sequence > 0")
        connection.close()
    app = started(folder)
    assert kept(app) == before
    assert learn(app, [1.0, 2.0], "no", id="first-3").json["duplicate"]
    assert ask(app, "POST", "/label", {"id": "v1", "label": "maybe"}).status == 422
    assert ask(app, "POST", "/label", {"id": "v4", "label": "no"}).json["learned"] == 1
    app.close()


def test_a_snapshot_that_cannot_be_read_is_rebuilt(folder, caplog):
    app = taught(folder)
    before = kept(app)
    app.close()
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE snapshots SET learner = x'00', version = '0.0.1'")
        connection.execute("UPDATE about SET value = '0.0.1' WHERE name = 'version'")
    connection.close()
    with caplog.at_level("INFO", "maxmargin.serve"):
        app = started(folder)
    assert kept(app) == before
    assert "by version 0.0.1, cannot be read" in caplog.text
    assert "last used by version 0.0.1" in caplog.text
    assert "replayed 15 events after event 0" in caplog.text
    app.close()
    database = Database(folder, read_only=True)
    assert database.about()["version"] == maxmargin.__version__
    database.close()


def test_a_fitted_model_that_cannot_be_read_any_more_says_so(folder):
    clf = AMIRA(random_state=0).fit([[0.0], [1.0]], ["no", "yes"])
    started(folder, clf).close()
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE snapshots SET learner = x'00', version = '0.0.1'")
    connection.close()
    with pytest.raises(ValueError, match=r"by version 0\.0\.1, cannot be read"):
        started(folder)


def test_a_newer_schema_is_refused(folder, monkeypatch):
    started(folder, AMIRA(), classes=CLASSES).close()
    monkeypatch.setattr(maxmargin.serve.database, "SCHEMA", 0)
    with pytest.raises(ValueError, match="is newer than this version"):
        started(folder)


def test_folders_that_are_not_ours(folder, tmp_path):
    with pytest.raises(ValueError, match="has no model yet"):
        started(folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "log").touch()
    with pytest.raises(ValueError, match="name an empty folder"):
        started(tmp_path / "other", AMIRA(), classes=CLASSES)
    for name, text in (("noise", b"x" * 5000), ("foreign", None)):
        (tmp_path / name).mkdir()
        if text is None:
            with sqlite3.connect(tmp_path / name / FILE) as connection:
                connection.execute("CREATE TABLE a (b)")
            connection.close()
        else:
            (tmp_path / name / FILE).write_bytes(text)
        with pytest.raises(ValueError, match=r"cannot be opened|not the database of a server"):
            started(tmp_path / name)
    with pytest.raises(ValueError, match="is not the folder of a server"):
        Replay(tmp_path / "nothing")


def test_one_server_at_a_time_uses_a_folder(folder):
    app = started(folder, AMIRA(), classes=CLASSES)
    with pytest.raises(ValueError, match="another server uses it"):
        started(folder)
    app.close()
    started(folder).close()
    assert oct(folder.stat().st_mode)[-3:] == "700"
    assert oct((folder / FILE).stat().st_mode)[-3:] == "600"


def test_another_beginning_is_refused(folder):
    started(folder, AMIRA(), classes=CLASSES).close()
    started(folder, AMIRA(), classes=["yes", "no"]).close()
    for learner, classes in ((Perceptron(), CLASSES), (AMIRA(epsilon=0.3), CLASSES)):
        with pytest.raises(ValueError, match=r"was created with [a-z]+ "):
            started(folder, learner, classes=classes)
    with pytest.raises(ValueError, match="was created with classes"):
        started(folder, AMIRA(), classes=["a", "b"])
    for classes in (["a"], [["a", "b"]], None):
        with pytest.raises(ValueError, match="classes"):
            started(folder, AMIRA(), classes=classes)


# -------------------------------------------------------------------------------- full disks
def test_a_full_disk_refuses_events_and_nothing_else(folder, caplog):
    app = taught(folder)
    before = kept(app)
    connection = app.service.database._connection
    ((pages,),) = connection.execute("PRAGMA page_count")
    connection.execute(f"PRAGMA max_page_count = {pages}")
    columns = {f"column {k}": k for k in range(2000)}
    big = {"row": {"clicks": 1, **columns}, "label": "yes", "id": "big"}
    for _ in range(2):
        refused = ask(app, "POST", "/learn", big)
        assert (refused.status, refused.headers["retry-after"]) == (507, "1")
        assert refused.json == {"error": "the disk is full."}
    assert caplog.text.count("the disk is full") == 1
    assert ask(app, "GET", "/health").status == 503
    assert "maxmargin_up 0\n" in ask(app, "GET", "/metrics").body.decode()
    assert ask(app, "POST", "/predict", {"row": {"clicks": 1}}).status == 200
    app.service.save_snapshot()
    assert "no snapshot could be written" in caplog.text
    assert kept(app) == before
    connection.execute("PRAGMA max_page_count = 1000000")
    assert ask(app, "POST", "/learn", big).json == {
        "learned": 1,
        "duplicate": False,
        "sequence": before[1]["sequence"] + 1,
    }
    assert ask(app, "GET", "/health").status == 200
    after = kept(app)
    app.close()
    app = started(folder)
    assert kept(app) == after
    app.close()


def test_a_refusal_that_cannot_be_noted_is_noted_later(folder, monkeypatch):
    app = started(folder, AMIRA(), classes=CLASSES)
    learn(app, [1.0], "yes")
    refuse, calls = Database.refuse, []

    def failing(*given):
        calls.append(given)
        if len(calls) == 1:
            raise sqlite3.OperationalError("database or disk is full")
        return refuse(*given)

    monkeypatch.setattr(Database, "refuse", failing)
    assert learn(app, [1.0, 2.0], "no", id="x").status == 422
    assert learn(app, [2.0], "no", id="x").json["learned"] == 1
    before = kept(app)
    app.close()
    app = started(folder)
    assert kept(app) == before
    assert before[1]["events"] == 2
    app.close()


def test_an_event_without_enough_memory_is_refused(folder, monkeypatch):
    app = started(folder, AMIRA(), classes=CLASSES)
    learn(app, {"a": 1}, "yes")

    def failing(*given):
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(app.service.model, "learn", failing)
        assert learn(app, {"a": 2}, "no", id="x").status == 503
    assert learn(app, {"a": 2}, "no", id="x").json["learned"] == 1
    before = kept(app)
    app.close()
    app = started(folder)
    assert kept(app) == before
    app.close()


def test_a_server_that_fails_says_so(folder, monkeypatch, caplog):
    called = []
    app = create_app(folder, AMIRA(), classes=CLASSES, on_failure=lambda: called.append(1))
    app.wait(60)

    def failing(*given):
        raise RuntimeError("counts are wrong")

    monkeypatch.setattr(app.service.model, "count", failing)
    assert learn(app, {"a": 1}, "yes").status == 503
    assert ask(app, "GET", "/health").json == {"error": "the server has failed: counts are wrong"}
    assert called
    assert "the server has failed" in caplog.text
    app.close()
    app = started(folder)
    assert ask(app, "GET", "/model").json["rows"] == 1
    app.close()


# --------------------------------------------------------------------------------- replays, backups
def test_a_model_as_it_was_after_an_event(folder, tmp_path):
    files = {}
    app = started(folder, AMIRA(), classes=CLASSES)
    for k, (row, label) in enumerate(zip(*rows_and_labels(30), strict=True), 1):
        learn(app, row, label)
        files[k] = ask(app, "GET", "/model/file").body
    for until in (1, 7, 30):  # while the server runs
        found = Replay(folder)
        found.run(until)
        assert as_file(found.model.learner) == files[until]
        assert found.report()["sequence"] == until
    times = [each.time for each in app.service.database.events()]
    found = Replay(folder)
    found.run(end=times[10])
    assert as_file(found.model.learner) == files[11]
    before = Replay(folder, Perceptron())
    before.run()
    assert (before.report()["algorithm"], before.report()["rows"]) == ("Perceptron", 30)
    app.close()


@pytest.mark.parametrize("way", ["backup", "VACUUM INTO"])
def test_a_backup_while_events_come(folder, tmp_path, way):
    app = taught(folder)
    before = kept(app)
    copy = tmp_path / "copy"
    copy.mkdir()
    source = sqlite3.connect(folder / FILE)
    if way == "backup":
        target = sqlite3.connect(copy / FILE)
        source.backup(target)
        target.close()
    else:
        source.execute("VACUUM INTO ?", (str(copy / FILE),))
    source.close()
    learn(app, {"clicks": 1}, "no", id="later")
    app.close()
    app = started(copy)
    assert kept(app) == before
    assert learn(app, {"clicks": 1}, "no", id="later").json["learned"] == 1
    app.close()


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs the program sqlite3")
def test_a_backup_by_the_program_and_events_by_sql(folder, tmp_path):
    app = taught(folder)
    copy = tmp_path / "copy"
    copy.mkdir()
    commands = [
        f".backup {copy / FILE}",
        "SELECT json_extract(body, '$.row.clicks') FROM events LIMIT 1",
    ]
    done = subprocess.run(
        ["sqlite3", folder / FILE, *commands], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(rows_and_labels(1)[0][0]["clicks"])
    before = kept(app)
    app.close()
    app = started(copy)
    assert kept(app) == before
    app.close()


def test_predictions_that_wait_too_long_are_forgotten(folder, monkeypatch):
    app = taught(folder)
    assert ask(app, "GET", "/model").json["waiting"] == 2
    monkeypatch.setattr(maxmargin.serve.database, "SECONDS_TO_WAIT", 0.0)
    app.service.save_snapshot()
    assert ask(app, "GET", "/model").json["waiting"] == 0
    assert ask(app, "POST", "/label", {"id": "v4", "label": "no"}).status == 404
    app.close()


def test_learners_that_cannot_be_served(folder):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from maxmargin import MaxMargin

    several = PassiveAggressive(random_state=0).fit(np.eye(3), np.eye(3, dtype=int))
    for learner in (MaxMargin(), make_pipeline(StandardScaler(), AMIRA()), several):
        with pytest.raises(ValueError, match="served"):
            started(folder, learner, classes=None if learner is several else CLASSES)
