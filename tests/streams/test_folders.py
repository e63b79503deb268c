"""Folders of Parquet files are read as one table."""

import importlib

import numpy as np
import pytest
from streamed import saved_bytes, stopped

from maxmargin import AMIRA, streams

pa = pytest.importorskip("pyarrow")
parquet = importlib.import_module("pyarrow.parquet")

ROWS = 90


def parts(seed=0):
    """Tables by their paths, in the order of the rows."""
    rng = np.random.default_rng(seed)
    return {
        f"year={year}/kind={kind}/part-{k}.parquet": pa.table(
            {"x": rng.normal(size=ROWS), "label": rng.integers(0, 2, ROWS)}
        )
        for year in (2024, 2025)
        for kind in ("a b", "c")
        for k in (0, 1)
    }


def write(folder, tables, order=1):
    for path, table in list(tables.items())[::order]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, folder / path, row_group_size=40)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "data", parts())
    return tmp_path / "data"


def rows_of(source, start=0):
    blocks = list(source.blocks(start))
    return np.vstack([each.X for each in blocks]), np.concatenate([each.y for each in blocks])


def opened(place, **options):
    return streams.open(place, block_size=500, **{"columns": ["x", "year"], **options})


def expected(tables):
    rows = []
    for path, table in tables.items():
        year = float(path[5:9])
        rows += [[x, year] for x in table["x"].to_pylist()]
    labels = [label for table in tables.values() for label in table["label"].to_pylist()]
    return np.array(rows), np.array(labels)


def remote_copy(folder):
    files = pytest.importorskip("fsspec").filesystem("memory")
    files.put(str(folder), "/copied/", recursive=True)
    return files


@pytest.mark.parametrize("where", ["folder", "path", "pattern", "memory", "memory pattern"])
def test_files_in_the_order_of_their_names_and_what_their_folders_tell(folder, where):
    files = None
    place = {"folder": str(folder), "path": folder, "pattern": f"{folder}/*/*/*.parquet"}.get(where)
    if place is None:
        files = remote_copy(folder)
        place = "memory://copied/" + ("**/*.parquet" if where == "memory pattern" else "")
    source = opened(place)
    assert source.total == sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    X, y = rows_of(source)
    rows, labels = expected(parts())
    np.testing.assert_array_equal(X, rows)
    np.testing.assert_array_equal(y, labels)
    blocks = list(source.blocks())
    assert blocks[-1].done == source.total
    for block in blocks[:: len(blocks) // 5]:
        if block.end < len(rows):
            np.testing.assert_array_equal(rows_of(opened(place), block.end)[0], rows[block.end :])
    if files is not None:
        files.rm("/copied", recursive=True)


def test_what_others_write_beside_the_data_is_left_out(folder):
    (folder / "_SUCCESS").write_text("")
    (folder / "_temporary").mkdir()
    parquet.write_table(parts()["year=2024/kind=c/part-0.parquet"], folder / "_temporary/x.parquet")
    (folder / "notes.txt").write_text("hello")
    assert rows_of(opened(folder))[1].size == 8 * ROWS


def test_a_label_that_folders_tell(folder):
    source = opened(folder, label="year", columns=["x"])
    assert source.survey().classes.tolist() == [2024, 2025]
    assert rows_of(source)[1].tolist() == [2024] * 4 * ROWS + [2025] * 4 * ROWS


def test_a_recipe_learns_what_folders_tell(folder):
    clf = AMIRA().fit_stream(opened(folder, columns=None, recipe=streams.Recipe()))
    assert {each["name"]: each["kind"] for each in clf.recipe_.columns_} == {
        "x": "number",
        "year": "number",
        "kind": "category",
    }


def test_stopped_and_resumed_and_changed(folder, tmp_path):
    expected = saved_bytes(AMIRA().fit_stream(opened(folder), passes=2), tmp_path)
    for after in (0, 5, 40):
        stopped(AMIRA(), opened(folder), after, tmp_path / f"{after}")
        clf = AMIRA().fit_stream(opened(folder), passes=2, checkpoint=tmp_path / f"{after}")
        assert saved_bytes(clf, tmp_path) == expected
    stopped(AMIRA(), opened(folder), 3, tmp_path / "other")
    write(folder, dict(list(parts(seed=1).items())[4:5]))
    with pytest.raises(ValueError, match="another source than"):
        AMIRA().fit_stream(opened(folder), passes=2, checkpoint=tmp_path / "other")


def test_the_order_of_writing_makes_no_difference(folder, tmp_path):
    write(tmp_path / "again", parts(), order=-1)
    assert opened(folder).identity() == opened(tmp_path / "again").identity()


def test_types_that_fit_and_columns_that_are_missing(folder):
    path = folder / "year=2025/kind=c/part-1.parquet"
    whole = pa.table({"label": pa.array([1, 0], pa.int8()), "x": pa.array([3, 4], pa.int32())})
    parquet.write_table(whole, path)
    assert rows_of(opened(folder))[0][-2:, 0].tolist() == [3.0, 4.0]
    parquet.write_table(whole.select(["label"]), path)
    with pytest.raises(streams.StreamError, match="column 'x': the number is missing"):
        rows_of(opened(folder))
    path.write_bytes(b"PAR1 nothing")
    with pytest.raises(streams.StreamError, match=r"c/part-1.parquet"):
        rows_of(opened(folder))


def test_what_is_no_such_folder(tmp_path, folder):
    with pytest.raises(FileNotFoundError, match=r"none-\*.parquet"):
        streams.open(tmp_path / "none-*.parquet")
    (tmp_path / "text").mkdir()
    (tmp_path / "text/rows.txt").write_text("x,y\n1,2\n")
    with pytest.raises(
        streams.StreamError, match=r"no files of tables, whose names end with \.csv"
    ):
        streams.open(tmp_path / "text")
    with pytest.raises(ValueError, match="svmlight cannot be read together"):
        streams.open(folder, format="svmlight")
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log/0.json").write_text("{}")
    with pytest.raises(streams.StreamError, match="Delta"):
        streams.open(folder)


def test_several_files_of_csv(tmp_path):
    (tmp_path / "a.csv").write_text("x,open,label\n1,true,0\n2,false,1\n")
    (tmp_path / "b.csv").write_text("open,label,x\ntrue,1,3\n")
    X, y = rows_of(streams.open(tmp_path))
    assert X.tolist() == [[1, 1], [2, 0], [3, 1]]
    assert y.tolist() == [0, 1, 1]
    assert rows_of(streams.open(tmp_path), 2)[1].tolist() == [1]
    (tmp_path / "b.csv").write_text("open,label,x\ntrue,1,3\ntrue,1,many\n")
    with pytest.raises(streams.StreamError, match="row 4, column 'x'"):
        rows_of(streams.open(tmp_path))
