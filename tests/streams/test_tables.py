"""CSV, Parquet and Arrow files and data frames as blocks of rows."""

import bz2
import gzip
import importlib
import io
import json
import lzma
from functools import partial

import numpy as np
import pytest
from hypothesis import strategies as st

from maxmargin import streams
from maxmargin.streams import Recipe, StreamError

pa = pytest.importorskip("pyarrow")
feather = importlib.import_module("pyarrow.feather")
parquet = importlib.import_module("pyarrow.parquet")

pytestmark = pytest.mark.usefixtures("few_objects")
CsvSource, ParquetSource, ArrowSource, FrameSource = (
    partial(streams.open, format=each) for each in ("csv", "parquet", "arrow", None)
)
CITIES = ["Rom", "Sankt Gallen, CH", "Ulm", 'the "Hub"']


def make_table(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "height": rng.normal(size=rows),
            "count": rng.integers(0, 4, rows),
            "open": rng.random(rows) < 0.5,
            "target": rng.choice(CITIES, rows),
        }
    )


def quoted(value):
    return '"{}"'.format(value.replace('"', '""')) if isinstance(value, str) else repr(value)


def csv_text(table, delimiter=","):
    rows = [delimiter.join(table.column_names)]
    rows += [delimiter.join(map(quoted, row.values())) for row in table.to_pylist()]
    return "\n".join(rows).encode() + b"\n"


def expected(table):
    return np.column_stack([np.array(table[name], float) for name in table.column_names[:-1]])


def rows_of(source, start=0):
    blocks = list(source.blocks(start))
    y = None if blocks[0].y is None else np.concatenate([block.y for block in blocks])
    return np.vstack([block.X for block in blocks]), y


def sources_of(table, folder, **options):
    """The table in each format."""
    (folder / "table.csv").write_bytes(csv_text(table))
    yield CsvSource(folder / "table.csv", **options)
    parquet.write_table(table, folder / "table.parquet", row_group_size=70)
    yield ParquetSource(folder / "table.parquet", **options)
    feather.write_feather(table, folder / "table.arrow", chunksize=90)
    yield ArrowSource(folder / "table.arrow", **options)
    yield FrameSource(table, **options)
    yield FrameSource(pytest.importorskip("pandas").DataFrame(table.to_pydict()), **options)
    yield FrameSource(pytest.importorskip("polars").DataFrame(table.to_pydict()), **options)


@pytest.mark.parametrize("block_size", [1, 700, 10**6])
def test_all_formats_give_the_same_rows(tmp_path, block_size):
    table = make_table(100)
    for source in sources_of(table, tmp_path, block_size=block_size):
        survey = source.survey()
        X, y = rows_of(source)
        np.testing.assert_array_equal(X, expected(table))
        np.testing.assert_array_equal(y, table["target"])
        assert survey.classes.tolist() == CITIES
        assert (survey.width, survey.rows) == (3, 100)


def test_blocks_end_where_the_last_began_and_go_on_from_there(tmp_path):
    table = make_table(100)
    for source in sources_of(table, tmp_path, block_size=900):
        blocks = list(source.blocks())
        assert len(blocks) > 3
        assert [block.end for block in blocks] == np.cumsum(
            [block.X.shape[0] for block in blocks]
        ).tolist()
        assert [block.done for block in blocks] == sorted(block.done for block in blocks)
        assert blocks[-1].done == source.total
        for at, block in enumerate(blocks):
            rest = list(source.blocks(block.end))
            assert [b.end for b in rest] == [b.end for b in blocks[at + 1 :]]
            for mine, theirs in zip(rest, blocks[at + 1 :], strict=True):
                np.testing.assert_array_equal(mine.X, theirs.X)
                np.testing.assert_array_equal(mine.y, theirs.y)


def test_another_table_is_read_alike(tmp_path):
    table = make_table()
    other = make_table(50, seed=1).select(["target", "open", "height", "count"])
    other = other.append_column("extra", pa.array(["unread"] * 50))
    schema = json.loads(json.dumps(FrameSource(table).schema(), sort_keys=True))
    assert schema.pop("format") == "table"
    same_order = other.select(table.column_names)
    X, y = rows_of(FrameSource(same_order))
    for source in sources_of(other, tmp_path, **schema):
        again, labels = rows_of(source)
        np.testing.assert_array_equal(again, X)
        np.testing.assert_array_equal(labels, y)
    unlabelled = other.drop_columns(["target"])
    for source in sources_of(unlabelled, tmp_path, **{**schema, "needs_label": False}):
        again, labels = rows_of(source)
        np.testing.assert_array_equal(again, X)
        assert labels is None
        assert source.survey().classes is None
    with pytest.raises(StreamError, match="no column 'height'; there are 'target'"):
        FrameSource(other.drop_columns(["height"]), **schema)


def zstd_compress(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(content)
    return sink.getvalue().to_pybytes()


COMPRESSIONS = [bytes, gzip.compress, bz2.compress, lzma.compress, zstd_compress]


@pytest.mark.parametrize("compress", COMPRESSIONS)
@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_compressed_text_and_pipes(tmp_path, compress, delimiter):
    table = make_table(60)
    content = compress(csv_text(table, delimiter))
    (tmp_path / "file").write_bytes(content)
    pipe = io.BufferedReader(io.BytesIO(content))
    for source in (CsvSource(tmp_path / "file", block_size=500), CsvSource(pipe, block_size=2000)):
        source.survey()
        X, y = rows_of(source)
        np.testing.assert_array_equal(X, expected(table))
        np.testing.assert_array_equal(y, table["target"])
        assert len(source.identity()) == 64
    assert not source.repeatable
    assert source.survey().rows is None


def test_labels_of_any_type():
    def survey_of(labels):
        return FrameSource(pa.table({"x": [1.0] * len(labels), "y": labels})).survey().classes

    assert survey_of(["no", "yes", "no"]).tolist() == ["no", "yes"]
    assert survey_of([True, False]).dtype == bool
    assert survey_of([0.5, 1.5, 0.5]).tolist() == [0.5, 1.5]
    assert survey_of([2.0, 1.0]).dtype == np.int64
    csv = io.BufferedReader(io.BytesIO(b"Class,x\nspam,1\nham,2\n"))
    assert CsvSource(csv).survey().classes.tolist() == ["ham", "spam"]


@pytest.mark.parametrize(
    ("header", "label", "chosen"),
    [("a,b,c", 0, "a"), ("a,b,c", -2, "b"), ("a,b,c", "c", "c"), ("a,Label,c", None, "Label")],
)
def test_label_by_name_or_position(header, label, chosen):
    text = io.BufferedReader(io.BytesIO(f"{header}\n1,2,3\n".encode()))
    schema = CsvSource(text, label=label).schema()
    assert schema["label"] == chosen
    assert schema["columns"] == [name for name in header.split(",") if name != chosen]


@pytest.mark.parametrize("header", ["a,b,c", "y,b,target"])
def test_a_label_must_be_said_if_it_is_not_clear(header):
    a, b, c = header.split(",")
    with pytest.raises(StreamError, match=f"label=; there are '{a}', '{b}', '{c}'"):
        CsvSource(io.BytesIO(f"{header}\n1,2,3\n".encode()))


def test_text_without_a_header():
    source = CsvSource(io.BytesIO(b"1,2,a\n3,4,b\n"), header=False, label=-1)
    X, y = rows_of(source)
    np.testing.assert_array_equal(X, [[1, 2], [3, 4]])
    assert y.tolist() == ["a", "b"]
    schema = source.schema()
    assert (schema["columns"], schema["label"], schema["header"]) == (["0", "1"], "2", False)


def test_another_table_has_names_as_the_first_had(tmp_path):
    """Whatever its first line looks like."""
    with pytest.warns(UserWarning, match="read as data"):
        headless = CsvSource(io.BytesIO(b"1,2,0\n3,4,1\n"), label=-1)
    assert rows_of(headless)[0].tolist() == [[1, 2], [3, 4]]
    more = io.BytesIO(b"0,1\n5,6\n")
    again = streams.open(more, schema=headless.schema(), needs_label=False)
    assert rows_of(again)[0].tolist() == [[0, 1], [5, 6]]
    named = CsvSource(io.BytesIO(b"2019,2020,y\n1,2,0\n3,4,1\n"), header=True)
    more = io.BytesIO(b"2020,2019\n5,6\n")
    again = streams.open(more, schema=named.schema(), needs_label=False)
    assert rows_of(again)[0].tolist() == [[6, 5]]


def test_values_that_are_said_to_be_missing():
    text = b"c,x,y\n7,1,no\n-,2,yes\n8,-,no\n9,4,-\n"
    source = CsvSource(io.BytesIO(text), na_values=["-"], on_error="skip")
    X, y = rows_of(source)
    assert (X.tolist(), y.tolist()) == ([[7, 1]], ["no"])
    schema = source.schema()
    assert schema["na_values"] == ["-"]
    again = streams.open(io.BytesIO(text), schema=schema, on_error="skip", format="csv")
    np.testing.assert_array_equal(rows_of(again)[0], X)


@pytest.mark.parametrize("na_values", ["NA", [1], ["a", None]])
def test_values_that_are_missing_are_texts(na_values):
    with pytest.raises(ValueError, match="na_values= must be a list of texts"):
        CsvSource(io.BytesIO(b"x,y\n1,0\n"), na_values=na_values)


@pytest.mark.parametrize("block_size", [1, 3, 4, 5, 8, 9, 2**22])
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("is_file", [True, False])
def test_marks_with_blocks_of_any_size(block_size, header, is_file, tmp_path):
    text = b"\xef\xbb\xbf" + (b"u,y\n" if header else b"") + b"1,-1\n2,1\n"
    file = tmp_path / "t.csv" if is_file else io.BytesIO(text)
    if is_file:
        file.write_bytes(text)
    X, y = rows_of(CsvSource(file, header=header, label=1, block_size=block_size))
    assert (X.ravel().tolist(), y.tolist()) == ([1, 2], [-1, 1])


# Fields that have only blanks in them, or blanks around what means that nothing is there.
BLANK = [" ", "\t", '" "', " NA", "nan ", '"  "', " null\t"]


TROUBLES = [
    (b"1,2", "row 2: Expected 3 columns, got 2"),
    (b"1,2,3,4", "row 2: Expected 3 columns, got 4"),
    (b"1,abc,-1", "row 2, column 'v': expected a number, found 'abc'"),
    (b"NA,2,-1", "row 2, column 'u': the number is missing"),
    (b" ,2,-1", "row 2, column 'u': the number is missing"),
    (b"1,nan,-1", "row 2, column 'v': the number is missing"),
    (b"1,-inf,-1", "row 2, column 'v': the number is infinite"),
    (b"1,2,", "row 2, column 'y': there is no label"),
    (b"1,2,x", "row 2, column 'y': expected a number, found 'x'"),
]


@pytest.mark.parametrize(("line", "message"), TROUBLES)
@pytest.mark.parametrize("block_size", [1, 10**6])
def test_bad_rows_of_csv_are_named_or_skipped(tmp_path, line, message, block_size):
    path = tmp_path / "bad.csv"
    path.write_bytes(b"u,v,y\n\n1,2,-1\n" + line + b"\n" + b"3,4,1\n" * 20)
    with pytest.raises(StreamError, match=message) as caught:
        list(CsvSource(path, block_size=block_size).blocks())
    assert str(caught.value).startswith(f"{path}, ")
    source = CsvSource(path, block_size=block_size, on_error="skip")
    blocks = list(source.blocks())
    assert source.skipped == 1
    assert [k for block in blocks for k in block.lost] == [1]
    X, y = rows_of(source)
    np.testing.assert_array_equal(X, [[1, 2]] + [[3, 4]] * 20)
    np.testing.assert_array_equal(y, [-1] + [1] * 20)
    assert source.survey().rows is None


def test_text_of_other_encodings(tmp_path):
    path, text = tmp_path / "rows.csv", "x,label\n0,José\n1,Zoë\n"
    for encoding in ("latin-1", "utf-16"):
        path.write_bytes(text.encode(encoding))
        with pytest.raises(StreamError, match="encoding="):
            rows_of(CsvSource(path))
        assert rows_of(CsvSource(path, encoding=encoding))[1].tolist() == ["José", "Zoë"]
    path.write_bytes(text.encode("utf-8-sig"))
    assert rows_of(CsvSource(path))[1].tolist() == ["José", "Zoë"]
    with pytest.raises(StreamError, match="encoding 'utf-99' is not known"):
        CsvSource(path, encoding="utf-99")


def test_quoted_fields(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('"a, b",label\r\n"1","x ""y""\nz"\r\n2,"b"\r\n')
    X, y = rows_of(CsvSource(path))
    assert (X.tolist(), y.tolist()) == ([[1], [2]], ['x "y"\nz', "b"])


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_decimal_signs(tmp_path, decimal, on_error):
    path = tmp_path / "rows.csv"
    path.write_text("x;label\n1.5;0\n-2.25;1\n".replace(".", decimal))
    X, _ = rows_of(CsvSource(path, decimal=decimal, on_error=on_error))
    assert X.ravel().tolist() == [1.5, -2.25]


def test_bad_rows_of_other_formats_are_named_or_skipped(tmp_path):
    table = pa.table({"u": [1.0, 2.0, None, 4.0], "t": range(4), "y": [1, 1, 1, None]})
    for source in list(sources_of(table, tmp_path))[1:]:
        with pytest.raises(StreamError, match="row 4, column 'y': there is no label"):
            source.survey()
    unlabelled = table.take([0, 1, 1, 3])
    for source in list(sources_of(unlabelled, tmp_path))[1:]:
        with pytest.raises(StreamError, match="row 4, column 'y': there is no label"):
            source.survey()
    for source in list(sources_of(table.slice(0, 3), tmp_path))[1:]:
        with pytest.raises(StreamError, match="row 3, column 'u': the number is missing"):
            list(source.blocks())
    for source in list(sources_of(table, tmp_path, on_error="skip", block_size=1))[1:]:
        X, y = rows_of(source)
        assert source.skipped == 2
        np.testing.assert_array_equal(X[:, 0], [1, 2])
        np.testing.assert_array_equal(y, [1, 1])


def test_kinds_are_fixed_by_the_beginning_or_by_the_user(tmp_path):
    path = tmp_path / "file.csv"
    path.write_bytes(b"zip,y\n" + b"123,1\n" * 100 + b"12-3,0\n")
    with pytest.raises(StreamError, match=r"row 101, column 'zip'.*kinds=\{'zip': 'category'\}"):
        list(CsvSource(path).blocks())
    for block_size in (1, 64, 10**6):
        recipe = Recipe({"zip": "category"})
        source = CsvSource(path, recipe=recipe, block_size=block_size)
        total = sum(block.X.toarray().sum() for block in source.blocks())
        assert total == 101


@pytest.mark.parametrize("values", [["a", "b"], pa.array([0, 1], pa.date32())])
def test_columns_without_numbers_need_a_recipe(values):
    table = pa.table({"day": values, "x": [1, 2], "y": [0, 1]})
    with pytest.raises(StreamError, match=r"'day' is not numeric: .*streams\.Recipe\(\) .*, or"):
        FrameSource(table)
    np.testing.assert_array_equal(rows_of(FrameSource(table, columns=["x"]))[0], [[1], [2]])


def test_labels_that_are_neither_numbers_nor_text():
    table = pa.table({"day": pa.array([0, 1], pa.date32()), "x": [1, 2]})
    with pytest.raises(StreamError, match="labels in column 'day' are neither numbers nor text"):
        FrameSource(table, label="day")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "ignore"}, "on_error must be one of"),
        ({"kinds": {"x": "integer"}}, "the kind of column 'x' must be one of"),
        ({"columns": []}, "no column beside the label"),
        ({"columns": ["u"]}, "no column 'u'; there are 'x', 'y'"),
        ({"kinds": {"u": "text"}}, "no column 'u'; there are 'x', 'y'"),
        ({"label": 2}, "no column 2; there are 'x', 'y'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(StreamError, match=message):
        FrameSource(pa.table({"x": [1, 2], "y": [0, 1]}), **options)


@pytest.mark.parametrize("name", ["chruned", "Churned", "churn"])
def test_a_column_that_may_have_been_meant_is_named(name):
    table = pa.table({"x": [1, 2], "churned": [0, 1]})
    with pytest.raises(StreamError, match=r"'x', 'churned' \(did you mean 'churned'\?\)\."):
        FrameSource(table, label=name)


@pytest.mark.parametrize("content", [b"", b"\n", b"a,a,y\n1,2,3\n", b'a,"b\n1,2\n'])
def test_bad_headers(content):
    with pytest.raises(StreamError):
        CsvSource(io.BytesIO(content))


@pytest.mark.parametrize("delimiter", ["", "ab", '"', "\n"])
def test_bad_delimiters(delimiter):
    with pytest.raises(StreamError, match="a delimiter is one character"):
        CsvSource(io.BytesIO(b"x,y\n1,2\n"), delimiter=delimiter)


def test_columns_and_values_without_end(tmp_path):
    names, value = [f"column{place}" for place in range(5_000)], "v" * 200_000
    path = tmp_path / "wide.csv"
    path.write_text(",".join((*names, "t", "y")) + "\n" + "1," * 5_000 + f'"{value}",1\n')
    recipe = Recipe({"t": "category"}, scale=False)
    (block,) = CsvSource(path, recipe=recipe).blocks()
    assert block.X.nnz == 5_001


def test_two_columns_of_one_name_are_refused(tmp_path):
    pd = pytest.importorskip("pandas")
    typed = pa.table([[1.0, 2.0], [3.0, 4.0], ["no", "yes"]], names=["x", "x", "label"])
    parquet.write_table(typed, tmp_path / "rows.parquet")
    feather.write_feather(typed, tmp_path / "rows.arrow")
    rows = [[1.0, 3.0, "no"], [2.0, 4.0, "yes"]]
    made = [
        (lambda: CsvSource(io.BytesIO(b"x, x,label\n1,3,no\n2,4,yes\n")), "x"),
        (lambda: ParquetSource(tmp_path / "rows.parquet"), "x"),
        (lambda: ArrowSource(tmp_path / "rows.arrow"), "x"),
        (lambda: FrameSource(typed), "x"),
        (lambda: FrameSource(pd.DataFrame(rows, columns=["x", "x", "label"])), "x"),
        (lambda: FrameSource(pd.DataFrame(rows, columns=[1, "1", "label"])), "1"),
        (lambda: Recipe().fit(pd.DataFrame(rows, columns=["x", "x", "label"])), "x"),
    ]
    for make, name in made:
        with pytest.raises(StreamError, match=f"there are 2 columns '{name}'|duplicate field"):
            make()


def test_columns_of_pandas_may_be_numbers():
    pandas = pytest.importorskip("pandas")
    source = FrameSource(pandas.DataFrame([[1.5, 1], [2.5, 0]]), label=-1)
    X, y = rows_of(source)
    np.testing.assert_array_equal(X, [[1.5], [2.5]])
    assert y.tolist() == [1, 0]
    assert source.schema()["columns"] == ["0"]


@pytest.mark.parametrize("make", [ParquetSource, ArrowSource])
def test_damaged_files(tmp_path, make):
    table = make_table(2000)
    list(sources_of(table, tmp_path))
    name = "table.parquet" if make is ParquetSource else "table.arrow"
    content = (tmp_path / name).read_bytes()
    path = tmp_path / "damaged"
    for cut in (0, 3, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(StreamError, match="damaged"):
            make(path)


def test_identity_tells_tables_apart(tmp_path):
    table = make_table()
    for one, same, other in zip(
        list(sources_of(table, tmp_path)),
        [source.identity() for source in sources_of(table, tmp_path)],
        [source.identity() for source in sources_of(make_table(seed=1), tmp_path)],
        strict=True,
    ):
        if one.name.startswith("<"):
            assert one.identity() == same
        assert same != other


@pytest.mark.parametrize(
    ("library", "message"),
    [("pyarrow", "tables and recipes need pyarrow:"), ("narwhals", "frames need narwhals:")],
)
def test_without_a_library(monkeypatch, library, message):
    real = importlib.import_module

    def missing(name, *rest):
        if name.split(".")[0] == library:
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(StreamError, match=rf"{message} pip install 'maxmargin\[streams\]'"):
        FrameSource(make_table())


NUMBERS = st.floats(-1e100, 1e100)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=4)
