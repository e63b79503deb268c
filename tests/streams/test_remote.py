"""Addresses of fsspec give what files give, and messages hide credentials."""

import bz2
import gzip
import http.server
import threading
import zipfile
from functools import partial

import numpy as np
import pytest
from streamed import saved_bytes, stopped
from streams.versions import FORMATS, opened, read, rows_of

from maxmargin import AMIRA, MaxMargin, streams
from maxmargin.distributed import Plain, files, fit
from maxmargin.streams.files import is_address, shown

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")
# After an error of a server, fsspec leaves a connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

FILES = {
    **{name: make(0) for name, make in FORMATS.items() if name != "rows.npz"},
    "rows.svm.gz": gzip.compress(FORMATS["rows.svm"](0)),
    "rows.csv.bz2": bz2.compress(FORMATS["rows.csv"](0)),
}


@pytest.fixture
def memory():
    found = fsspec.filesystem("memory")
    yield found
    for path in found.ls("/", detail=False):
        found.rm(path, recursive=True)


@pytest.fixture
def site(tmp_path):
    """A server of text without ranges."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    handler = partial(Silent, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.mark.parametrize("name", FILES)
def test_same_rows_and_the_same_model_from_memory(name, memory, tmp_path):
    memory.pipe_file(f"/here/{name}", FILES[name])
    place = f"memory://here/{name}"
    source = opened(place)
    np.testing.assert_array_equal(read(source), rows_of(0))
    assert (source.name, source.total) == (place, len(FILES[name]))
    expected = saved_bytes(AMIRA().fit_stream(opened(place), passes=2), tmp_path)
    stopped(AMIRA(), opened(place), 3, tmp_path / "checkpoint")
    clf = AMIRA().fit_stream(opened(place), passes=2, checkpoint=tmp_path / "checkpoint")
    assert saved_bytes(clf, tmp_path) == expected


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith(".parquet")])
def test_same_rows_from_a_server(name, site):
    np.testing.assert_array_equal(read(opened(f"http://{site}/{name}")), rows_of(0))


def test_same_rows_from_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "rows.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.csv", FILES["rows.csv"])
    found = read(opened(f"zip://rows.csv::{tmp_path}/rows.zip"))
    np.testing.assert_array_equal(found, rows_of(0))


def test_files_of_a_cluster(memory):
    for k in range(3):
        memory.pipe_file(f"/parts/{k}.csv", FORMATS["rows.csv"](k))
    shards = files("memory://parts/*.csv")
    assert len(shards) == 3
    assert fit(MaxMargin(), shards, Plain()).classes_.tolist() == [-1, 1]


def test_what_is_not_there(site, memory):
    with pytest.raises(FileNotFoundError, match=r"none\.csv"):
        streams.open("memory://none.csv")
    with pytest.raises(FileNotFoundError, match=r"none.csv\?\.\.\."):
        streams.open(f"http://{site}/none.csv?token=tok3n")


def test_credentials_are_not_shown(site):
    assert shown("https://me:s3cret@a.org/x.csv?sig=abc#d") == "https://a.org/x.csv?..."
    assert shown("zip://x.csv::s3://key@bucket/x.zip") == "zip://x.csv::s3://bucket/x.zip"
    assert shown("/data/x?.csv") == "/data/x?.csv"
    source = opened(f"http://{site}/rows.csv?token=tok3n")
    assert source.name == f"http://{site}/rows.csv?..."
    assert "tok3n" not in str(source.identity()) + str(source.schema())


@pytest.mark.parametrize("place", ["s3://b/x", "https://a.org/x.csv", "zip://x::s3://b/y.zip"])
def test_addresses(place):
    assert is_address(place)
    assert not is_address(place.replace("://", ":/"))


def test_an_address_of_no_known_kind():
    with pytest.raises(streams.StreamError, match=r"unknown://x\.csv: "):
        streams.open("unknown://x.csv")


def test_without_fsspec(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(
        streams.StreamError, match=r"need fsspec: pip install 'maxmargin\[remote\]'"
    ):
        streams.open("memory://x.csv")
