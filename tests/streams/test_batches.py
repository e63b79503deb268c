"""Whatever gives Arrow record batches is read as a table."""

import gc
import importlib
import tracemalloc
from contextlib import ExitStack

import numpy as np
import pytest
from streamed import saved_bytes, stopped

from maxmargin import AMIRA, streams

pa = pytest.importorskip("pyarrow")

ROWS = 500
OPEN = ExitStack()  # connections, while a test needs them


def table(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    return pa.table(
        {
            "x": x,
            "count": rng.integers(0, 9, rows),
            "label": np.where(x + 0.3 * rng.normal(size=rows) > 0, "yes", "no"),
        }
    )


TABLE = table()


def duckdb_relation(folder):
    duckdb = pytest.importorskip("duckdb")
    path = folder / "rows.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as connection:
            connection.register("given", TABLE)
            connection.execute("CREATE TABLE rows AS SELECT * FROM given")
    # Relations do not keep their connections in all versions of DuckDB.
    connection = OPEN.enter_context(duckdb.connect(str(path), read_only=True))
    return connection.sql("SELECT * FROM rows ORDER BY rowid")


def polars_lazy(folder):
    polars = pytest.importorskip("polars")
    if not hasattr(polars.LazyFrame, "collect_batches"):
        pytest.skip("this version of polars collects all at once")
    return polars.from_arrow(TABLE).lazy().filter(polars.col("count") >= 0)


def hugging_face(folder):
    return pytest.importorskip("datasets").Dataset(TABLE)


def hugging_face_shuffled(folder):
    """Rows in another order, and a second order that undoes it."""
    given = pytest.importorskip("datasets").Dataset(TABLE)
    order = np.random.default_rng(3).permutation(ROWS)
    return given.select(order).select(np.argsort(order))


def hugging_face_stream(folder):
    return pytest.importorskip("datasets").Dataset(TABLE).to_iterable_dataset()


def pyarrow_dataset(folder):
    return importlib.import_module("pyarrow.dataset").dataset(TABLE)


TABLES = [
    *(duckdb_relation, polars_lazy, hugging_face, hugging_face_shuffled, hugging_face_stream),
    pyarrow_dataset,
]


def reader(folder):
    return pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=120))


class Handle:
    """A stream that gives its content once, as results of ADBC are."""

    def __init__(self, batches):
        self.batches = batches

    def __arrow_c_stream__(self, requested_schema=None):
        return self.batches.__arrow_c_stream__(requested_schema)


def handle(folder):
    return Handle(reader(folder))


def adbc(folder):
    dbapi = pytest.importorskip("adbc_driver_sqlite.dbapi")
    path = folder / "rows.sqlite"
    if not path.exists():
        with dbapi.connect(str(path)) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("rows", TABLE)
            connection.commit()
    cursor = OPEN.enter_context(OPEN.enter_context(dbapi.connect(str(path))).cursor())
    cursor.execute("SELECT * FROM rows ORDER BY rowid")
    return cursor.fetch_arrow()


def dense(source, start=0):
    blocks = list(source.blocks(start))
    X = np.vstack([each.X for each in blocks])
    return X, np.concatenate([each.y for each in blocks])


def opened(source):
    return streams.open(source, block_size=2000)


@pytest.fixture(autouse=True)
def _nothing_stays_open():
    yield
    gc.collect()  # handles of results
    OPEN.close()


@pytest.fixture(scope="module")
def expected():
    return dense(opened(TABLE))


@pytest.mark.parametrize("make", TABLES)
def test_tables(make, tmp_path, expected):
    source = opened(make(tmp_path))
    assert source.repeatable
    for _ in range(2):
        for found, wanted in zip(dense(source), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    blocks = list(source.blocks())
    assert len(blocks) > 3
    rest = dense(opened(make(tmp_path)), blocks[2].end)
    np.testing.assert_array_equal(rest[0], expected[0][blocks[2].end :])
    assert source.identity() == opened(make(tmp_path)).identity()
    assert source.schema() == opened(TABLE).schema()


@pytest.mark.parametrize("make", [reader, handle, adbc])
def test_streams_are_read_once(make, tmp_path, expected):
    source = opened(make(tmp_path))
    assert not source.repeatable
    assert source.survey().classes.tolist() == ["no", "yes"]
    for found, wanted in zip(dense(source), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    end = 300
    rest = dense(opened(make(tmp_path)), end)
    np.testing.assert_array_equal(rest[0], expected[0][300:])
    with pytest.raises(ValueError, match="can be read again"):
        AMIRA().fit_stream(opened(make(tmp_path)), passes=2)


@pytest.mark.parametrize("make", [duckdb_relation, hugging_face_shuffled, reader])
def test_stopped_and_resumed(make, tmp_path):
    clf = AMIRA().fit_stream(opened(TABLE))
    wanted = saved_bytes(clf, tmp_path)
    for after in (0, 2, 5):
        stopped(AMIRA(), opened(make(tmp_path)), after, tmp_path / f"{after}", passes=1)
        source = opened(make(tmp_path))
        clf = AMIRA().fit_stream(source, checkpoint=tmp_path / f"{after}", every=1)
        assert saved_bytes(clf, tmp_path) == wanted
    stopped(AMIRA(), opened(make(tmp_path)), 2, tmp_path / "other", passes=1)
    with pytest.raises(ValueError, match="another source"):
        AMIRA().fit_stream(opened(table(seed=1)), checkpoint=tmp_path / "other")


def test_rows_are_not_copied():
    """Beyond the block that is worked on, and those ahead of it."""
    rows = 400_000
    big = pa.table({f"x{k}": np.random.default_rng(k).normal(size=rows) for k in range(5)})
    big = big.append_column("label", pa.array(np.arange(rows) % 2))
    source = streams.open(Handle(big.to_reader()), block_size=2**18)
    before, most = pa.total_allocated_bytes(), 0
    tracemalloc.start()
    try:
        for _ in source.blocks():
            most = max(most, pa.total_allocated_bytes() - before)
        assert tracemalloc.get_traced_memory()[1] < 0.25 * big.nbytes
    finally:
        tracemalloc.stop()
    assert most < 0.1 * big.nbytes


def test_a_recipe_over_a_relation(tmp_path):
    clf = AMIRA().fit_stream(duckdb_relation(tmp_path), recipe=streams.Recipe())
    wanted = AMIRA().fit_stream(TABLE, recipe=streams.Recipe())
    np.testing.assert_array_equal(clf.coef_, wanted.coef_)


def test_columns_are_chosen_and_strange_ones_are_named(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("SELECT 1.5 AS x, [1, 2] AS pair, range % 2 AS y FROM range(10)")
    with pytest.raises(streams.StreamError, match=r"'pair' is not numeric"):
        streams.open(relation)
    assert streams.open(relation, columns=["x"]).survey().width == 1
    with pytest.raises(streams.StreamError, match="there are no rows"):
        streams.open(relation.filter("x > 2"))


def test_a_dict_of_datasets_is_not_one():
    datasets = pytest.importorskip("datasets")
    splits = datasets.DatasetDict({"train": hugging_face(None), "test": hugging_face(None)})
    with pytest.raises(TypeError, match="choose one of 'train', 'test'"):
        streams.open(splits)
