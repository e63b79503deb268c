"""Addresses give what files give, whatever servers do, and tell nobody's secrets."""

import bz2
import gzip
import importlib
import io
import threading
import time
import zipfile

import numpy as np
import pytest
from sklearn.base import clone
from streamed import saved_bytes, stopped, svmlight_text
from streams.rows import assert_same, everything
from streams.web import a_site

from maxmargin import AMIRA, streams
from maxmargin.distributed import Plain, files, fit
from maxmargin.streams import addresses, remote
from maxmargin.streams.addresses import Address, is_address

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")
pa = pytest.importorskip("pyarrow")
feather = importlib.import_module("pyarrow.feather")
parquet = importlib.import_module("pyarrow.parquet")

# After an error of a server, fsspec leaves a connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
ROWS, BLOCK = 600, 4000
NO_RANGES = pytest.mark.filterwarnings("ignore:.*the server gives no ranges:RuntimeWarning")


def some_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 5))
    return X, np.where(X @ rng.normal(size=5) + 0.3 * rng.normal(size=ROWS) > 0, 1, -1)


X, Y = some_rows()
TEXT = svmlight_text(X, Y).encode()
TABLE = pa.table({**{f"x{k}": X[:, k] for k in range(5)}, "label": Y})


def written(write, table=TABLE, **options):
    file = io.BytesIO()
    write(table, file, **options)
    return file.getvalue()


def zipped(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


write_csv = importlib.import_module("pyarrow.csv").write_csv
CSV = written(write_csv)
FILES = {
    "rows.svm": TEXT,
    "rows.svm.gz": gzip.compress(TEXT),
    "rows.csv": CSV,
    "rows.csv.bz2": bz2.compress(CSV),
    "rows.parquet": written(parquet.write_table, row_group_size=250),
    "rows.arrow": written(feather.write_feather, chunksize=150, compression="uncompressed"),
}
CHANGED = {
    "rows.svm": TEXT[:-20] + b"\n",
    "rows.csv.bz2": bz2.compress(written(write_csv, TABLE.slice(1))),
    "rows.parquet": written(parquet.write_table, TABLE.slice(1)),
}


@pytest.fixture(autouse=True)
def _small_ranges_and_no_patience(monkeypatch):
    for name, size in (("RANGE", 3000), ("LEAST_RANGE", 500), ("HEAD", 700), ("PIECE", 900)):
        monkeypatch.setattr(remote, name, size)
    monkeypatch.setattr(addresses, "FIRST_PAUSE_SECONDS", 0.001)


@pytest.fixture(scope="module")
def server():
    with a_site() as site:
        yield site


@pytest.fixture
def site(server):
    server.files = dict(FILES)
    server.behave()
    return server


@pytest.fixture
def memory():
    files = fsspec.filesystem("memory")
    yield files
    for path in files.ls("/", detail=False):
        files.rm(path, recursive=True)


def opened(place, **options):
    return streams.open(place, block_size=BLOCK, **options)


def rows_of(source, start=streams.START):
    blocks = list(source.blocks(start))
    dense = [each.X if isinstance(each.X, np.ndarray) else each.X.toarray() for each in blocks]
    return np.vstack(dense), np.concatenate([each.y for each in blocks])


# ------------------------------------------------------------------------------- what files give
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("where", ["http", "no ranges", "memory", "zip", "zip on http"])
@NO_RANGES
def test_same_rows_from_everywhere_and_from_the_middle(name, where, site, memory, tmp_path):
    if where == "memory":
        memory.pipe_file(f"/here/{name}", FILES[name])
        address = f"memory://here/{name}"
    elif where == "zip":
        (tmp_path / "rows.zip").write_bytes(zipped(name, FILES[name]))
        address = f"zip://{name}::{tmp_path / 'rows.zip'}"
    elif where == "zip on http":
        site.files["rows.zip"] = zipped(name, FILES[name])
        address = f"zip://{name}::{site.url('rows.zip')}"
    else:
        site.ranges = where == "http"
        address = site.url(name)
    (tmp_path / name).write_bytes(FILES[name])
    source, local = opened(address), opened(tmp_path / name)
    found = rows_of(source)
    np.testing.assert_array_equal(found[0], X)
    np.testing.assert_array_equal(found[1], Y)
    assert source.total == local.total == len(FILES[name])
    blocks, theirs = list(source.blocks()), list(local.blocks())
    assert [(each.end, each.done) for each in blocks] == [(each.end, each.done) for each in theirs]
    middle = blocks[len(blocks) // 2].end
    again = rows_of(opened(address), middle)
    np.testing.assert_array_equal(again[0], X[middle.row :])
    assert source.name == address
    assert source.schema() == local.schema()


def test_a_chain_with_a_cache(site, tmp_path):
    source = opened(f"simplecache::{site.url('rows.svm')}")
    np.testing.assert_array_equal(rows_of(source)[0], X)


def test_addresses_of_local_files(tmp_path):
    (tmp_path / "some rows.svm").write_bytes(TEXT)
    source = opened(f"file://{tmp_path}/some%20rows.svm")
    assert source.name == str(tmp_path / "some rows.svm")
    assert not is_address(tmp_path)
    assert not any(map(is_address, ["rows.csv", "C:\\rows", "a::b", "http:rows", "/a/b://c"]))


def test_arrays_must_be_local(memory):
    memory.pipe_file("/X.npy", b"\x93NUMPY and so on")
    with pytest.raises(streams.StreamError, match=r"memory://X.npy: arrays must be in a file"):
        streams.open("memory://X.npy")


# -------------------------------------------------------------------------------- read ahead
def test_going_on_asks_for_what_is_left_alone(site):
    blocks = list(opened(site.url("rows.svm"), zero_based=False).blocks())
    start = blocks[len(blocks) // 2].end
    site.asked = []
    rest = opened(site.url("rows.svm"), zero_based=False).blocks(start)
    assert_same(everything(rest), everything(blocks[len(blocks) // 2 + 1 :]))
    ranges = sorted(at for at in site.bytes_asked_for() if at not in (0, len(TEXT) - 1))
    assert ranges[0] > start.offset - remote.RANGE
    assert ranges == sorted(set(ranges))  # each once


def test_a_few_ranges_are_under_way_and_few_are_kept():
    content = np.random.default_rng(0).bytes(20 * remote.RANGE + 17)
    under_way, most, lock = 0, 0, threading.Lock()
    together = threading.Semaphore(0)

    def fetch(start, end):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            if under_way == remote.IN_FLIGHT:
                together.release()
        if start > remote.RANGE:
            together.acquire(timeout=10)
            together.release()
        with lock:
            under_way -= 1
        return content[start:end]

    with remote.Ranges(fetch, len(content), b"", 1) as file:
        parts, held = [], 0
        while part := file.read(1111):
            parts.append(part)
            held = max(held, len(file._ranges))
    assert b"".join(parts) == content
    assert most == remote.IN_FLIGHT
    assert held <= remote.IN_FLIGHT + 2


def test_places_in_turns():
    """As pyarrow reads columns: few bytes are asked for twice, though many places take turns."""
    content, asked = np.random.default_rng(0).bytes(72_000), []

    def fetch(start, end):
        asked.append(start)
        return content[start:end]

    with remote.Ranges(fetch, len(content), b"", 6) as file:
        parts = dict.fromkeys(range(0, 72000, 12000), b"")
        for _ in range(24):
            for place, part in parts.items():
                file.seek(place + len(part))
                parts[place] += file.read(500)
    assert b"".join(parts.values()) == content
    assert len(asked) <= len(set(asked)) + 5  # what comes behind the end of each


def test_parquet_asks_for_the_columns_that_are_read(site, monkeypatch):
    wide = pa.table({f"x{k}": np.random.default_rng(k).normal(size=2000) for k in range(30)})
    file = io.BytesIO()
    parquet.write_table(wide.append_column("label", pa.array(np.arange(2000) % 2)), file)
    site.files["wide.parquet"] = file.getvalue()
    source = streams.open(site.url("wide.parquet"), columns=["x3"])
    assert rows_of(source)[0].shape == (2000, 1)
    ranges = [at for at in site.bytes_asked_for() if at is not None]
    assert len(ranges) * remote.RANGE < 0.3 * len(file.getvalue())


# -------------------------------------------------------------------------------- troubles
@pytest.mark.parametrize("name", ["rows.svm", "rows.svm.gz", "rows.csv", "rows.parquet"])
@pytest.mark.parametrize("ranges", [True, False])
@NO_RANGES
def test_troubles_that_pass(name, ranges, site):
    site.ranges = ranges
    site.troubles = [503, "cut", None, 500, "cut", 429, None, None, "cut"]
    np.testing.assert_array_equal(rows_of(opened(site.url(name)))[0], X)
    assert len(site.troubles) < 4


@NO_RANGES
def test_silence_is_a_trouble(site, monkeypatch):
    monkeypatch.setattr(remote, "SILENT_SECONDS", 0.2)
    site.ranges = False
    source = opened(site.url("rows.svm"), zero_based=False)
    blocks, site.asked, site.troubles = source.blocks(), [], ["silence"]
    assert_same(everything(blocks), everything(streams.open(io.BytesIO(TEXT)).blocks()))
    assert len(site.asked) >= 2


@pytest.mark.parametrize("ranges", [True, False])
@NO_RANGES
def test_troubles_that_stay_have_address_and_position(ranges, site):
    site.ranges = ranges
    source = opened(site.url("rows.svm"), zero_based=False)
    blocks = source.blocks()
    if ranges:  # without, the whole file may be on its way
        next(blocks)
    site.troubles = ["cut"] * 1000
    with pytest.raises(
        streams.StreamError,
        match=rf"{site.url('rows.svm')}, at byte [\d,]+: .*\(tried {addresses.ATTEMPTS} times\)\.$",
    ):
        list(blocks)


def test_a_file_that_vanishes(site):
    source = opened(site.url("rows.svm"), zero_based=False)
    blocks = source.blocks()
    next(blocks)
    del site.files["rows.svm"]
    with pytest.raises(streams.StreamError, match=r"rows.svm changed .*\(it cannot be found\)"):
        list(blocks)


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        ("{site}/none.svm", FileNotFoundError, r"No such file.*'{site}/none.svm'"),
        ("{site}/no*.parquet", (FileNotFoundError, streams.StreamError), r"no\*.parquet"),
        ("memory://none.svm", FileNotFoundError, r"'memory://none.svm'"),
        ("zip://none.svm::memory://none.zip", FileNotFoundError, r"zip://none.svm::memory://none"),
        ("http://127.0.0.1:1/rows.svm", streams.StreamError, r"127.0.0.1:1/rows.svm: .*tried 5"),
        ("nosuch://rows.svm", streams.StreamError, "nosuch://rows.svm: Protocol not known"),
    ],
)
def test_what_cannot_be_opened(address, error, message, site):
    root = site.url("").rstrip("/")
    with pytest.raises(error, match=message.replace("{site}", root)):
        streams.open(address.replace("{site}", root))


def test_packages_that_are_missing(monkeypatch):
    known = importlib.import_module("fsspec.registry").known_implementations
    monkeypatch.setitem(known, "far", {"class": "nosuch.FS", "err": "Install farfs to get there"})
    with pytest.raises(streams.StreamError, match=r"^far://x: Install farfs to get there$"):
        streams.open("far://x")
    monkeypatch.setitem(importlib.import_module("sys").modules, "fsspec.core", None)
    with pytest.raises(streams.StreamError, match=r"pip install 'maxmargin\[remote\]'$"):
        streams.open("far://x")


def test_a_server_without_ranges_says_so_once(site):
    site.ranges = False
    with pytest.warns(RuntimeWarning, match=r"rows.svm: the server gives no ranges") as noted:
        rows_of(opened(site.url("rows.svm")))
    assert len(noted) == 1


@NO_RANGES
def test_a_server_that_does_not_know_how_long_files_are(site):
    site.lengths = False
    source = opened(site.url("rows.svm"))
    np.testing.assert_array_equal(rows_of(source)[0], X)
    assert source.total is None


def test_reading_ahead_ends_with_its_user(site):
    for _ in range(5):
        blocks = opened(site.url("rows.svm"), zero_based=False).blocks()
        next(blocks)
        blocks.close()
    deadline = time.monotonic() + 10
    while any(thread.name.endswith("(run)") for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


# -------------------------------------------------------------------------------- credentials
@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://me:secret@host/a/b.csv", "https://host/a/b.csv"),
        ("https://secret@host/a.csv", "https://host/a.csv"),
        ("ftp://me:sec/ret@host/a.csv", "ftp://host/a.csv"),
        ("https://host/a.csv?X-Signature=secret&b=1", "https://host/a.csv?..."),
        ("https://host/a.csv#secret", "https://host/a.csv?..."),
        ("zip://a@b.csv::https://me:secret@host/a.zip", "zip://b.csv::https://host/a.zip"),
        ("s3://bucket/me@there/a.csv", "s3://bucket/me@there/a.csv"),
    ],
)
def test_names_have_no_credentials(address, name):
    there = Address(address)
    assert there.name == name
    for said in (OSError(f"cannot read {address} now"), OSError("the secret was wrong")):
        assert "secret" not in there.message_of(said) or "secret" not in address
    assert "sec/ret" not in there.message_of(OSError(f"in {address}"))


def test_credentials_are_nowhere(site, tmp_path):
    address = site.url("rows.svm").replace("http://", "http://me:secret@") + "?token=tok3n"
    source = opened(address)
    stopped(AMIRA(), source, 2, tmp_path / "checkpoint", passes=1)
    clf = AMIRA().fit_stream(opened(address), checkpoint=tmp_path / "checkpoint", every=1)
    seen = [(tmp_path / "checkpoint").read_bytes(), saved_bytes(clf, tmp_path)]
    seen += [source.name.encode(), repr(files(address)).encode()]
    blocks = opened(address, zero_based=False).blocks()
    next(blocks)
    site.troubles = [500] * 1000
    with pytest.raises(streams.StreamError) as raised:
        list(blocks)
    site.troubles = []
    seen.append(str(raised.value).encode())
    for name in ("none.svm", "none.parquet"):
        with pytest.raises(FileNotFoundError) as missing:
            streams.open(address.replace("rows.svm", name))
        seen.append(repr(missing.value).encode())
        assert missing.value.__context__ is None
    for each in seen:
        assert b"secret" not in each
        assert b"tok3n" not in each
    assert b"rows.svm?..." in seen[-3]


# -------------------------------------------------------------------------------- checkpoints
@pytest.mark.parametrize("name", ["rows.svm", "rows.csv.bz2", "rows.parquet"])
def test_checkpoints_go_on_to_the_bit_and_refuse_a_changed_file(name, site, tmp_path):
    expected = saved_bytes(AMIRA().fit_stream(opened(site.url(name)), passes=2), tmp_path)
    for after in (1, 4):
        path = tmp_path / f"checkpoint {after}"
        stopped(AMIRA(), opened(site.url(name)), after, path)
        clf = clone(AMIRA()).fit_stream(opened(site.url(name)), checkpoint=path, passes=2)
        assert saved_bytes(clf, tmp_path) == expected
    stopped(AMIRA(), opened(site.url(name)), 2, tmp_path / "other")
    site.files[name] = CHANGED[name]
    with pytest.raises(ValueError, match=f"another source than {site.url(name)}, or of what it"):
        AMIRA().fit_stream(opened(site.url(name)), checkpoint=tmp_path / "other", passes=2)


def test_identities(site, memory, tmp_path):
    def of(place):
        return streams.open(place).identity()

    for tags in (True, False):
        site.tags, site.files["rows.svm"] = tags, TEXT
        before = of(site.url("rows.svm"))
        assert of(site.url("rows.svm") + "?signed=otherwise") == before
        site.files["rows.svm"] = b"2" + site.files["rows.svm"][1:]
        assert of(site.url("rows.svm")) != before
    (tmp_path / "rows.zip").write_bytes(zipped("rows.svm", TEXT))
    before = of(f"zip://rows.svm::{tmp_path}/rows.zip")
    (tmp_path / "rows.zip").write_bytes(zipped("rows.svm", b"2" + TEXT[1:]))
    assert of(f"zip://rows.svm::{tmp_path}/rows.zip") != before
    memory.pipe_file("/rows.svm", TEXT)
    before = of("memory://rows.svm")
    time.sleep(0.001)
    memory.pipe_file("/rows.svm", b"2" + TEXT[1:])
    assert of("memory://rows.svm") != before


# ----------------------------------------------------------------------------------- clusters
def test_files_of_a_cluster(memory, tmp_path):
    half = len(TEXT) // 2 + TEXT[len(TEXT) // 2 :].index(b"\n") + 1
    for name, part in (("b", TEXT[half:]), ("a", TEXT[:half])):
        memory.pipe_file(f"/parts/{name}.svm", part)
        (tmp_path / f"{name}.svm").write_bytes(part)
    found = files("memory://parts/*.svm")
    assert [each.name for each in found] == ["memory://parts/a.svm", "memory://parts/b.svm"]
    there, here = (
        fit(AMIRA(max_iter=3, random_state=0), shards, Plain())
        for shards in (found, files(str(tmp_path / "*.svm")))
    )
    np.testing.assert_array_equal(there.coef_, here.coef_)
    with pytest.raises(FileNotFoundError, match=r"There is no file memory://none/\*.svm"):
        files("memory://none/*.svm")
