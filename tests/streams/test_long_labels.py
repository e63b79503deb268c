"""Small files with a few long texts, or large numbers as labels: no memory is filled by them."""

import gzip

import numpy as np
import pytest

from maxmargin import streams
from maxmargin.streams import StreamError
from maxmargin.streams.arrow import LONGEST_LABEL, as_text, coded

pa = pytest.importorskip("pyarrow")
ROWS = 20_000


def blocks(path, **options):
    return list(streams.open(path, label="y", **options).blocks())


def test_a_label_of_a_million_letters(tmp_path):
    path = tmp_path / "rows.csv.gz"
    rows = [f"{i % 7},{'ab'[i % 2]}" for i in range(ROWS)]
    path.write_bytes(gzip.compress("\n".join(["x,y", *rows, f"1,{'c' * 10**6}"]).encode()))
    with pytest.raises(StreamError, match=r"rows.csv.gz.*a label has 1,000,000 letters"):
        blocks(path)


def test_rows_with_labels_that_cannot_be_used_are_skipped_and_counted(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"x,y\n1,a\n2,{'c' * (LONGEST_LABEL + 1)}\n3,b\n")
    for recipe in (None, streams.Recipe()):
        source = streams.open(path, label="y", on_error="skip", recipe=recipe)
        found = [label for block in source.blocks() for label in block.y.tolist()]
        assert (found, source.skipped) == (["a", "b"], 1)
        assert source.survey().classes.tolist() == ["a", "b"]
        with pytest.raises(StreamError, match=r"rows.csv, row 2, column 'y': a label has 257 let"):
            list(streams.open(path, label="y", recipe=recipe).blocks())
    path.write_text(f"x,y\n1,1\n2,{2**53}\n3,2\n")
    source = streams.open(path, label="y", on_error="skip")
    assert [block.y.tolist() for block in source.blocks()] == [[1, 2]]
    assert source.skipped == 1


def test_labels_up_to_the_limit(tmp_path):
    path, long = tmp_path / "rows.csv", "c" * LONGEST_LABEL
    path.write_text(f"x,y\n1,a\n2,{long}\n")
    (block,) = blocks(path)
    assert block.y.tolist() == ["a", long]


@pytest.mark.parametrize("coded_in", ["file", "column"])
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_long_values_of_dictionaries_are_not_written_out(tmp_path, kind, coded_in, monkeypatch):
    texts = np.array(["a" * 10**4, "b", "c"], dtype=object)[np.arange(ROWS) % 3]
    text = pa.array(texts.tolist())
    table = pa.table(
        {
            "x": np.arange(ROWS, dtype=float),
            "z": text.dictionary_encode() if coded_in == "column" or kind == "arrow" else text,
            "y": np.arange(ROWS) % 2,
        }
    )
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    before = pa.total_allocated_bytes()
    most = []

    def counting(column):
        most.append(pa.total_allocated_bytes() - before)
        return coded(column)

    monkeypatch.setattr("maxmargin.streams.column_kinds.coded", counting)
    recipe = streams.Recipe({"x": "number", "z": "category"}, scale=False)
    found = list(streams.open(path, recipe=recipe).blocks())
    assert sum(block.y.size for block in found) == ROWS
    assert most
    assert max(most) < 10**7  # written out, the texts take 67 MB
    assert found[0].X[:6, 1:].nnz == 6


def test_codes_are_in_the_order_of_their_first_rows():
    one = pa.DictionaryArray.from_arrays(
        pa.array([3, None, 1, 0, 3, 2]), pa.array(["a", "b", None, "d", "unused"])
    )
    two = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), pa.array(["d", "e"]))
    column = pa.chunked_array([one, two])
    codes, texts = coded(column)
    plain_codes, plain = coded(column.cast(pa.string()))
    assert texts == plain == ["d", "b", "a", "e"]
    assert codes.tolist() == plain_codes.tolist() == [0, 4, 1, 2, 0, 4, 3, 0, 3]
    assert coded(pa.chunked_array([], one.type))[1] == []


def test_texts_that_would_take_too_much_are_refused(monkeypatch):
    monkeypatch.setattr("maxmargin.streams.arrow.LARGEST_TEXT", 10**6)
    column = pa.chunked_array([pa.array(["a" * 10**4] * 200).dictionary_encode()])
    with pytest.raises(StreamError, match="would take 2,000,000 bytes"):
        as_text(column)


def test_labels_that_double_precision_cannot_tell_apart(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"x,y\n1,{2**53}\n2,{2**53 + 1}\n3,7\n")
    with pytest.raises(StreamError, match=r"rows.csv.*a label is 9007199254740992, and numb"):
        blocks(path)
    found = blocks(path, kinds={"y": "category"})[0].y.tolist()
    assert found == [str(2**53), str(2**53 + 1), "7"]
    path.write_text(f"x,y\n1,{2**53 - 1}\n2,{2**53 - 2}\n")
    assert blocks(path)[0].y.tolist() == [2**53 - 1, 2**53 - 2]
