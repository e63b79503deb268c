"""A file that changes while it is read is an error: versions of it are never mixed."""

import io
import os
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from campaigns.changing_files import campaign
from streamed import saved_bytes
from streams import versions
from streams.versions import CHANGES, FOLDER, FORMATS, options_for, read, replacement, write
from streams.web import a_site, tag

import maxmargin
from maxmargin import AMIRA, streams
from maxmargin.cli import main
from maxmargin.cli.counted import Counted
from maxmargin.evaluate import progressive
from maxmargin.streams import addresses, remote
from maxmargin.streams.addresses import Address
from maxmargin.streams.files import LocalFile
from maxmargin.streams.tables import TableSource

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")
# After an error of a server, fsspec leaves a connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
NO_RANGES = pytest.mark.filterwarnings("ignore:.*the server gives no ranges:RuntimeWarning")
BLOCK = 1500
CHANGED = "changed while it was being read"
WEB = [name for name in FORMATS if not name.endswith((".npy", ".npz"))]


class Changing(Counted):
    """A source during whose first, second, ... block something happens."""

    def __init__(self, source, at, happens):
        super().__init__(source)
        self.at, self.happens = at, happens

    def blocks(self, start=streams.START):
        for k, block in enumerate(super().blocks(start)):
            if k == self.at:
                self.happens()
            yield block


def opened(place):
    beside = {} if isinstance(place, str) else options_for(place)
    return streams.open(place, block_size=BLOCK, **beside)


def zipped(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.svm", content)
    return file.getvalue()


# ----------------------------------------------------------------------------------- local files
@pytest.mark.parametrize("moment", ["before", "during", "between"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", [*FORMATS, FOLDER])
def test_local_files(name, change, moment, tmp_path):
    path = tmp_path / name
    file = write(path, name, 0)
    new, source = replacement(file, name, 1), opened(path)
    if moment == "before":
        change(file, new)
    elif moment == "between":
        assert len(read(source)) == (2 if name == FOLDER else 1) * versions.ROWS
        change(file, new)
    else:
        source = Changing(source, 1, lambda: change(file, new))
    with pytest.raises(streams.StreamError, match=f"{file} {CHANGED}"):
        read(source)


def test_large_folders_take_few_looks(tmp_path, monkeypatch):
    """All files before and after a pass, and a constant number behind each block."""
    (tmp_path / "folder").mkdir()
    for k in range(20):
        versions.write(tmp_path / "folder" / f"{k}.parquet", "rows.parquet", k)
    monkeypatch.setattr("maxmargin.streams.files.FILES_AT_ONCE", 3)
    source, looks = streams.open(tmp_path / "folder"), []
    source.survey()
    real = LocalFile.check_unchanged
    monkeypatch.setattr(LocalFile, "check_unchanged", lambda file: (looks.append(file), real(file)))
    blocks = len(list(source.blocks()))
    assert blocks >= 20
    assert len(looks) <= 3 * 20 + 3 * blocks
    os.utime(tmp_path / "folder" / "19.parquet", ns=(2 * 10**18, 2 * 10**18))
    with pytest.raises(streams.StreamError, match=f"19.parquet {CHANGED}"):
        list(source.blocks())


def test_what_is_said(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,label\n" + b"1,2\n" * 28)
    source = streams.open(path)
    os.truncate(path, 90)
    with pytest.raises(streams.StreamError) as raised:
        source.survey()
    assert str(raised.value) == (
        f"{path} changed while it was being read (its size was 120 bytes and is now 90). Read it "
        "again from the start, or copy it first."
    )


def test_numbers_of_files_that_do_not_last(tmp_path, monkeypatch):
    """As on some network file systems; where it is another file, its ctime differs as well."""
    path, stat = write(tmp_path / "rows.svm", "rows.svm", 0), os.stat
    source = opened(path)

    def renumbered(place, **options):
        found = stat(place, **options)
        values = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        return SimpleNamespace(**{**values, "st_ino": found.st_ino + 1})

    monkeypatch.setattr(os, "stat", renumbered)
    assert len(read(source)) == versions.ROWS


def test_files_beside_an_array(tmp_path):
    path = write(tmp_path / "rows.npy", "rows.npy", 0)
    np.save(tmp_path / "weight.npy", np.ones(versions.ROWS))
    for beside in ("rows.labels.npy", "weight.npy"):
        source = streams.open(path, weight=tmp_path / "weight.npy", **options_for(path))
        changed = tmp_path / beside
        os.utime(changed, ns=(2 * 10**18, 2 * 10**18))
        with pytest.raises(streams.StreamError, match=f"{changed} {CHANGED}"):
            read(source)


def test_what_is_wrong_with_a_file_that_stays_is_said_as_ever(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_bytes(b"1 1:1\n1 1:x\n")
    with pytest.raises(streams.StreamError, match="line 2, column 5"):
        read(streams.open(path))


# ------------------------------------------------------------------------------------- learners
def test_a_learner_stays_as_it_was(tmp_path):
    path = write(tmp_path / "rows.svm", "rows.svm", 0)
    clf = AMIRA().fit_stream(path)
    before = saved_bytes(clf, tmp_path)
    new = replacement(path, "rows.svm", 1)
    for passes, at in ((1, 2), (3, 0)):
        write(path, "rows.svm", 0)
        source = Changing(opened(path), at, lambda: versions.rewrite_end(path, new))
        with pytest.raises(streams.StreamError, match=CHANGED):
            clf.fit_stream(source, passes=passes)
        assert saved_bytes(clf, tmp_path) == before


@pytest.mark.parametrize("name", ["rows.svm", "rows.csv", "rows.npz", "rows.parquet"])
def test_checkpoints_hold_rows_of_one_version(name, tmp_path):
    path, checkpoint = tmp_path / name, tmp_path / "checkpoint"
    write(path, name, 0)
    expected = saved_bytes(AMIRA().fit_stream(opened(path), passes=2), tmp_path)
    new = replacement(path, name, 1)
    source = Changing(opened(path), 3, lambda: versions.rewrite(path, new))
    with pytest.raises(streams.StreamError, match=CHANGED):
        AMIRA().fit_stream(source, passes=2, checkpoint=checkpoint, every=1)
    with pytest.raises(ValueError, match="The checkpoint is one of another source"):
        AMIRA().fit_stream(opened(path), passes=2, checkpoint=checkpoint)
    write(path, name, 0)
    clf = AMIRA().fit_stream(opened(path), passes=2, checkpoint=checkpoint)
    assert saved_bytes(clf, tmp_path) == expected


def test_progressive(tmp_path):
    path = write(tmp_path / "rows.csv", "rows.csv", 0)
    new = replacement(path, "rows.csv", 1)
    source = Changing(opened(path), 2, lambda: versions.replace(path, new))
    with pytest.raises(streams.StreamError, match=CHANGED):
        progressive(AMIRA(), source)


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_commands(command, tmp_path, monkeypatch, capsys):
    path = write(tmp_path / "rows.csv", "rows.csv", 0)
    new, real = replacement(path, "rows.csv", 1), TableSource.blocks
    maxmargin.save(AMIRA().fit_stream(path), tmp_path / "model")

    def blocks(self, start=streams.START):
        for block in real(self, start):
            versions.rewrite(path, new)
            yield block

    monkeypatch.setattr(TableSource, "blocks", blocks)
    monkeypatch.setattr(sys, "argv", ["maxmargin", command, str(tmp_path / "model"), str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code != 0
    assert CHANGED in " ".join(capsys.readouterr().err.split())


# ------------------------------------------------------------------------------------------ the web
@pytest.fixture(autouse=True)
def _small_ranges_and_no_patience(monkeypatch):
    for name, size in (("RANGE", 3000), ("LEAST_RANGE", 500), ("HEAD", 2000), ("PIECE", 900)):
        monkeypatch.setattr(remote, name, size)
    monkeypatch.setattr(addresses, "FIRST_PAUSE_SECONDS", 0.001)


@pytest.fixture(scope="module")
def server():
    with a_site() as site:
        yield site


@pytest.fixture
def site(server):
    server.files = files_of(0)
    server.behave()
    return server


def files_of(version):
    return {name: FORMATS[name](version) for name in WEB}


SERVERS = {
    "ETag": {},
    "weak ETag": {"tags": "weak"},
    "If-Match is ignored": {"obeys": False},
    "Last-Modified": {"tags": False, "modified": True},
    "neither": {"tags": False},
    "no ranges": {"ranges": False},
    "no ranges, Last-Modified": {"ranges": False, "tags": False, "modified": True},
    "no ranges, neither": {"ranges": False, "tags": False},
    "no lengths": {"lengths": False},
}


def set_up(site, kind):
    for name, value in SERVERS[kind].items():
        setattr(site, name, value)


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("name", WEB)
@NO_RANGES
def test_a_file_that_stays(name, kind, site):
    set_up(site, kind)
    source, (X, y) = opened(site.url(name)), versions.rows_of(0)
    for _ in range(2):
        np.testing.assert_array_equal(read(source), np.hstack([X, y[:, None]]))


@pytest.mark.parametrize("kind", [name for name in SERVERS if "no" not in name.split()])
@pytest.mark.parametrize("name", WEB)
def test_replaced_between_ranges(name, kind, site):
    set_up(site, kind)
    source = opened(site.url(name))
    # It is the new one from the third of all ranges on.
    site.changes = [None, None, files_of(1)]
    with pytest.raises(streams.StreamError, match=f"{name} {CHANGED}"):
        read(source)
    assert not site.changes


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("name", WEB)
@NO_RANGES
def test_replaced_between_passes(name, kind, site):
    set_up(site, kind)
    source = opened(site.url(name))
    assert len(read(source)) == versions.ROWS
    site.files = files_of(1)
    if kind == "no ranges, neither" and name.endswith((".parquet", ".arrow")):
        X, y = versions.rows_of(0)  # of a copy on the disk, whatever the server has
        np.testing.assert_array_equal(read(source), np.hstack([X, y[:, None]]))
        return
    with pytest.raises(streams.StreamError, match=f"{name} {CHANGED}"):
        read(source)


@pytest.mark.parametrize("name", WEB)
def test_a_file_that_is_gone_again(name, site):
    """The new version is there for one range only: at the end of the pass nothing is to be seen."""
    source = opened(site.url(name))
    site.changes = [None, None, files_of(1), files_of(0)]
    with pytest.raises(streams.StreamError, match=f"{name} {CHANGED}"):
        read(source)


def test_only_strong_tags_are_conditions(site):
    for tags, condition in ((True, tag(site.files["rows.svm"])), ("weak", None), (False, None)):
        site.behave()
        site.tags = tags
        read(opened(site.url("rows.svm")))
        assert set(site.conditions) == {condition}


def test_a_change_is_not_tried_again(site):
    source = opened(site.url("rows.svm"))
    site.changes = [None, files_of(1)]
    site.troubles = [None, None, 503, 503]
    with pytest.raises(streams.StreamError, match=CHANGED):
        read(source)
    times = [site.bytes_asked_for().count(at) for at in set(site.bytes_asked_for())]
    assert max(times) < addresses.ATTEMPTS


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("factor", [0.5, 0.999, 1.001, 2.0])
@pytest.mark.parametrize("name", WEB)
@NO_RANGES
def test_a_head_with_a_wrong_length(name, factor, ranges, site):
    size = len(site.files[name])
    site.announced, site.ranges = int(factor * size), ranges
    with pytest.raises(streams.StreamError) as raised:
        read(opened(site.url(name)))
    for number in (size, site.announced):
        assert f"{number:,} " in str(raised.value).replace(":", " ")


@NO_RANGES
def test_a_stream_that_is_longer_than_announced(site):
    site.ranges, site.lengths, site.announced = False, False, len(site.files["rows.svm"]) - 1000
    with pytest.raises(streams.StreamError, match=f"{site.announced:,} bytes were announced, but"):
        read(opened(site.url("rows.svm")))


@pytest.mark.parametrize("how", [{}, {"tags": "weak"}, {"tags": False, "modified": True}])
@pytest.mark.parametrize("name", ["rows.svm", "rows.csv", "rows.csv.gz", "rows.parquet"])
@NO_RANGES
def test_a_stream_that_breaks_off_and_is_another_one_afterwards(name, how, site):
    site.ranges = False
    for attribute, value in how.items():
        setattr(site, attribute, value)
    if name == "rows.parquet":  # which is copied to the disk when it is opened
        site.troubles, site.changes = [None, None, "cut"], [None, None, None, files_of(1)]
        with pytest.raises(streams.StreamError, match=f"{name} {CHANGED}"):
            opened(site.url(name))
        return
    source = opened(site.url(name))
    site.troubles, site.changes = ["cut", None], [None, files_of(1)]
    with pytest.raises(streams.StreamError, match=f"{name} {CHANGED}"):
        read(source)


class Breaking(io.BufferedReader):
    """A file of which a few pieces can be read."""

    pieces = 3

    def read(self, size=-1):
        self.pieces -= 1
        if self.pieces < 0:
            raise OSError("the connection is lost")
        return super().read(size)


class Opening:
    """A file system that opens these files, one after another, of which it gives no ranges."""

    protocol = "memory"

    def __init__(self, *files):
        self.files = list(files)

    def open(self, place, mode, **how):
        return self.files.pop(0)


@pytest.mark.parametrize("begin", [0, 100])
def test_what_was_read_before_a_failure_is_compared(begin):
    """Also where nobody says anything of the content."""
    old, new = (files_of(version)["rows.svm"] for version in (0, 1))
    for then, is_fine in ((old, True), (new, False)):
        looked_at, after = (io.BufferedReader(io.BytesIO(each)) for each in (old, then))
        files = Opening(looked_at, Breaking(io.BytesIO(old)), after)
        stored = remote.RemoteFile(
            Address("memory://rows.svm"), files, "/rows.svm", {"size": len(old)}
        )
        with stored.open() as file:
            file.seek(begin)
            if is_fine:
                assert file.read() == old[begin:]
            else:
                with pytest.raises(streams.StreamError, match=f"rows.svm {CHANGED}"):
                    file.read()
        assert not files.files


@NO_RANGES
def test_a_stream_that_breaks_off_and_goes_on(site):
    site.ranges = site.tags = False
    source, (X, _) = opened(site.url("rows.svm")), versions.rows_of(0)
    site.troubles = ["cut", 503, "cut"]
    np.testing.assert_array_equal(read(source)[:, :-1], X)


@pytest.mark.parametrize("kind", SERVERS)
@NO_RANGES
def test_few_requests_more(kind, site):
    """At most two for each pass, beside those for the content."""
    set_up(site, kind)
    source = opened(site.url("rows.svm"))
    source.survey()
    asked = []
    for reading in (source._source, source):
        site.asked = []
        read(reading)
        asked.append(len(site.asked))
    per_look = 2 if kind == "no lengths" else 1  # fsspec asks by GET as well
    assert asked[1] - asked[0] == 2 * per_look


def test_credentials_are_not_said(site):
    address = site.url("rows.svm").replace("http://", "http://me:secret@") + "?token=tok3n"
    for announced in (None, 17):
        site.behave()
        site.announced = announced
        site.changes = [None, None, files_of(1)]
        with pytest.raises(streams.StreamError, match=r"rows.svm\?\.\.\.") as raised:
            read(opened(address))
        seen, error = "", raised.value
        while error is not None:
            seen, error = f"{seen} {error}", error.__cause__ or error.__context__
        assert "secret" not in seen
        assert "tok3n" not in seen
        site.files = files_of(0)


# ------------------------------------------------------------------------------- other file systems
@pytest.mark.parametrize("moment", ["during", "between"])
@pytest.mark.parametrize("name", [*WEB, FOLDER])
def test_memory(name, moment):
    files = fsspec.filesystem("memory")
    is_folder = name == FOLDER
    names = [f"{name}/{part}" for part in versions.PARTS] if is_folder else [name]

    def put(version):
        for each in names:
            form = "rows.parquet" if is_folder else name
            files.pipe_file(f"/changing/{each}", FORMATS[form](version))

    put(0)
    try:
        source = opened(f"memory://changing/{name}")
        if moment == "during":
            source = Changing(source, 1, lambda: put(1))
        else:
            read(source)
            put(1)
        with pytest.raises(streams.StreamError, match=CHANGED):
            read(source)
    finally:
        files.rm("/changing", recursive=True)


def test_archives(site, tmp_path):
    site.files["rows.zip"] = zipped(site.files["rows.svm"])
    write(tmp_path / "rows.svm", "rows.svm", 0)
    (tmp_path / "rows.zip").write_bytes(site.files["rows.zip"])
    for place in (
        f"zip://rows.svm::{tmp_path}/rows.zip",
        f"zip://rows.svm::{site.url('rows.zip')}",
    ):
        source = opened(place)
        assert len(read(source)) == versions.ROWS
        other = zipped(files_of(1)["rows.svm"])
        site.files["rows.zip"] = other
        (tmp_path / "rows.zip").write_bytes(other)
        with pytest.raises(streams.StreamError, match=CHANGED):
            read(source)
        site.files["rows.zip"] = zipped(site.files["rows.svm"])


# ----------------------------------------------------------------------------------- all at random
@NO_RANGES
def test_a_sample_of_the_campaign(tmp_path):
    found = campaign(60, 1, tmp_path)
    assert found.troubles == []
    assert found.counts["changed"] >= 20
    assert found.counts["one version"] >= 5
