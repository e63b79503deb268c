"""svmlight text, read as scikit-learn's loader reads it."""

import io
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file
from streams.rows import assert_same, everything, read

from maxmargin import streams

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.one_of(
    FINITE.map(repr),
    st.sampled_from(["0", "-0", "1", "+1", "-1", "0.0", ".5", "5.", "1e3", "2.50", "1E-2"]),
    st.integers(-(10**25), 10**25).map(str),
)
SPACES = st.sampled_from([" ", "  ", "\t", " \t "])
ENDS = st.sampled_from(["", " ", "\t", " # a comment", "# 1:2", " #", " # 3:x é"])
NEWLINES = st.sampled_from(["\n", "\r\n"])


@st.composite
def lines(draw, first_column):
    """A line with a row, with nothing, or with a comment."""
    kind = draw(st.sampled_from(["row", "row", "row", "blank", "comment"]))
    if kind == "blank":
        return draw(st.sampled_from(["", " ", "\t ", "   "])) + draw(NEWLINES)
    if kind == "comment":
        return draw(st.sampled_from(["#", "# 1 2:3", "  # text", "#x:y"])) + draw(NEWLINES)
    columns = draw(st.lists(st.integers(first_column, 40), unique=True, max_size=8).map(sorted))
    tokens = [draw(NUMBERS)]
    if draw(st.booleans()):
        tokens.append(f"qid:{draw(st.integers(0, 99))}")
    tokens += [f"{column}:{draw(NUMBERS)}" for column in columns]
    space = draw(SPACES)
    return draw(st.sampled_from(["", " ", "\t"])) + space.join(tokens) + draw(ENDS) + draw(NEWLINES)


def texts(first_column=0):
    return st.builds(
        lambda given, cut: "".join(given).encode()[: -1 if cut else None],
        st.lists(lines(first_column), min_size=1, max_size=12),
        st.booleans(),
    )


@settings(max_examples=200, deadline=None)
@given(texts(), st.sampled_from([1, 7, 30, 2**21]))
@example(b"+1\n", 1)
@example(b"1 0:1\r", 3)
def test_same_as_scikit_learn_from_column_0(text, block_size):
    expected = load_svmlight_file(io.BytesIO(text), zero_based=True, n_features=41)
    assert_same(read(text, zero_based=True, n_features=41, block_size=block_size), expected)


@settings(max_examples=100, deadline=None)
@given(texts(first_column=1), st.sampled_from([1, 7, 30, 2**21]))
def test_same_as_scikit_learn_from_column_1(text, block_size):
    expected = load_svmlight_file(io.BytesIO(text), zero_based=False, n_features=40)
    assert_same(read(text, zero_based=False, n_features=40, block_size=block_size), expected)


@settings(max_examples=100, deadline=None)
@given(texts())
def test_same_as_scikit_learn_where_columns_say_how_they_are_counted(text):
    if b":" not in re.sub(rb"qid:|#.*", b"", text):  # scikit-learn cannot tell a width then
        text += b"\n1 1:1\n"
    expected = load_svmlight_file(io.BytesIO(text), zero_based="auto")
    assert_same(read(text), expected)


@settings(max_examples=10, deadline=None)
@given(texts(first_column=1))
def test_every_block_size_gives_the_same_rows(text):
    expected = read(text, zero_based=False, least_width=40)
    for block_size in range(1, len(text) + 2):
        assert_same(read(text, zero_based=False, least_width=40, block_size=block_size), expected)


@settings(max_examples=60, deadline=None)
@given(texts(first_column=1), st.integers(1, 60))
def test_taken_up_again_at_every_position(text, block_size):
    options = {"zero_based": False, "least_width": 40, "block_size": block_size}
    blocks = list(streams.open(io.BytesIO(text), **options).blocks())
    for number, block in enumerate(blocks):
        rest = list(streams.open(io.BytesIO(text), **options).blocks(block.end))
        assert [later.end for later in rest] == [later.end for later in blocks[number + 1 :]]
        assert_same(everything(rest), everything(blocks[number + 1 :]), same_width=False)
    rows = sum(block.X.shape[0] for block in blocks)
    if blocks:
        assert blocks[-1].end == rows


def test_positions_count_rows():
    text = b"# head\n1 1:1\n\n2 2:2\n3 3:3"
    ends = [block.end for block in streams.open(io.BytesIO(text), block_size=13).blocks()]
    assert ends == [1, 3]


def test_explicit_zeros_stay():
    X, _ = read(b"1 1:0 3:-0.0 4:5\n")
    assert X.indices.tolist() == [0, 2, 3]
    assert np.signbit(X.data).tolist() == [False, True, False]


def test_rows_without_entries():
    X, y = read(b"1\n-1 \n+2 # nothing\n3 qid:7\n4 2:1\n5\n")
    assert y.tolist() == [1, -1, 2, 3, 4, 5]
    assert X.toarray().tolist() == [[0, 0]] * 4 + [[0, 1], [0, 0]]


@pytest.mark.parametrize("text", [b"", b"\n", b"# nothing", b"# a\n\r\n \t\n#b\n", b" "])
@pytest.mark.parametrize("block_size", [1, 3, 100])
def test_no_rows(text, block_size):
    source = streams.open(io.BytesIO(text), block_size=block_size)
    survey = source.survey()
    assert survey.classes.tolist() == []
    assert list(source.blocks()) == []


def test_lines_longer_than_a_block():
    columns = np.arange(1, 3000)
    line = b"1 " + b" ".join(b"%d:%d" % (column, column) for column in columns)
    X, y = read(line + b"\n" + line + b"\n-1 1:1\n" + line, block_size=100)
    assert y.tolist() == [1, 1, -1, 1]
    assert X.indptr.tolist() == [0, 2999, 5998, 5999, 8998]
    assert X.data[:2999].tolist() == columns.tolist()


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("maxmargin.streams.svmlight.LONGEST_LINE", 10_000)
    assert read(b"1" * 9_000, block_size=100, on_error="skip")[1].size == 0
    with pytest.raises(streams.StreamError, match="<pipe>: a line is longer than 10,000 b"):
        read(b"1 1:1\n\n" + b"1" * 20_000, block_size=100, on_error="skip")


# Lines that cannot be read, the column that the message names, and what it says.
BAD = {
    "x 1:1": (1, "expected a label, a number; found 'x'"),
    "  :1 1:1": (3, "expected a label, a number; found ':1'"),
    "1e999:1 1:1": (1, "the label is too large for a number; found '1e999:1'"),
    "1: 1:1": (3, "expected a weight after the colon, a number that is not negative; found a sp"),
    "1:#": (3, "expected a weight after the colon, a number that is not negative; found '#'"),
    "1:-2 1:1": (3, "expected a weight after the colon, a number that is not negative; found '-2"),
    "1:-0 1:1": (3, "expected a weight after the colon, a number that is not negative; found '-0"),
    "1:nan 1:1": (3, "expected a weight after the colon, a number that is not negative; found 'n"),
    "1:2:3 1:1": (3, "expected a weight after the colon, a number that is not negative; found '2"),
    "1:x": (3, "expected a weight after the colon, a number that is not negative; found 'x'"),
    "1:1e999 1:1": (3, "the weight is too large for a number; found '1e999'"),
    "1e999 1:1": (1, "the label is too large for a number; found '1e999'"),
    "1 1": (3, "expected 'column:value'; found '1'"),
    "1 1:1 x:1": (7, "expected 'column:value'; found 'x:1'"),
    "1 -1:1": (3, "expected 'column:value'; found '-1:1'"),
    "1 :1": (3, "expected 'column:value'; found ':1'"),
    "1 1 :1": (3, "expected 'column:value'; found '1'"),
    "1 1:1 qid:3": (7, "expected 'column:value'; found 'qid:3'"),
    "1 qid:x 1:1": (3, "expected 'column:value'; found 'qid:x'"),
    "1 2147483647:1": (3, "the column is not a number below 2147483647; found '2147483647:1'"),
    "1 99999999999999999999999:1": (3, "the column is not a number below 2147483647"),
    "1 3:1 2:1": (7, "the columns must be in ascending order; found '2:1'"),
    "1 3:1\t3:1 # twice": (7, "a column occurs twice; found '3:1'"),
    "1 3:1 03:1": (7, "a column occurs twice; found '03:1'"),
    "1 1:": (5, "expected a number after the colon; found the end of the line"),
    "1 1: \t": (5, "expected a number after the colon; found the end of the line"),
    "1 1: 2": (5, "expected a number after the colon; found a space"),
    "1 1:2:3": (5, "expected a number after the colon; found '2:3'"),
    "1 1:2 5:1.2.3": (9, "expected a number after the colon; found '1.2.3'"),
    "1 1:nan": (5, "expected a number after the colon; found 'nan'"),
    "1 1:é": (5, "expected a number after the colon; found 'é'"),
    "1 1:\x00": (5, "expected a number after the colon; found '\\x00'"),
    "1 1:-1e999": (5, "the value is too large for a number; found '-1e999'"),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n", ""])
@pytest.mark.parametrize("bad", BAD)
def test_the_message_names_file_line_and_column(tmp_path, bad, newline):
    column, message = BAD[bad]
    path = tmp_path / "bad.txt"
    path.write_bytes(f"# head\n\n1 1:1 # fine\n2 2:2\r\n{bad}{newline}".encode())
    expected = re.escape(f"{path}, line 5, column {column}: {message}")
    for block_size in (1, 8, 2**20):
        with pytest.raises(streams.StreamError, match=expected):
            list(streams.open(path, block_size=block_size).blocks())
        with pytest.raises(streams.StreamError, match=expected):
            list(streams.open(path, zero_based=False, block_size=block_size).blocks())


def test_column_0_where_columns_begin_with_1():
    with pytest.raises(streams.StreamError, match=r"line 2, column 3: there is a column 0"):
        read(b"1 1:1\n1 0:1\n", zero_based=False)


def test_rows_before_a_bad_block_are_given():
    source = streams.open(io.BytesIO(b"1 1:1\n2 2:2\nx\n3 3:3\n"), block_size=1, zero_based=False)
    blocks = source.blocks()
    assert next(blocks).y.tolist() == [1]
    assert next(blocks).y.tolist() == [2]
    with pytest.raises(streams.StreamError, match="line 3, column 1"):
        next(blocks)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.one_of(lines(1), st.sampled_from(sorted(BAD)).map("{}\n".format)), max_size=12),
    st.sampled_from([1, 10, 40, 2**20]),
)
def test_skipping_leaves_out_bad_lines_and_nothing_else(given, block_size):
    bad = {f"{line}\n" for line in BAD}
    text = "".join(given).encode()
    good = "".join(line for line in given if line not in bad).encode()
    source = streams.open(
        io.BytesIO(text), on_error="skip", block_size=block_size, zero_based=False, least_width=40
    )
    assert_same(everything(source.blocks()), read(good, zero_based=False, least_width=40))
    assert source.skipped == sum(line in bad for line in given)


def test_the_survey_passes_over_what_is_skipped(tmp_path):
    path = tmp_path / "some.txt"
    path.write_bytes(b"7 1:1 900:x\n1 2:1\n9 5:1 4:1\n2 3:1\n8 0:1 50:1\n")
    survey = streams.open(path, on_error="skip", zero_based=False).survey()
    assert survey.classes.tolist() == [1, 2]
    assert (survey.width, survey.rows) == (3, 2)


def test_what_a_survey_finds(tmp_path):
    path = tmp_path / "some.txt"
    path.write_bytes(b"3 1:1\n-1 5:1 # x\n\n0.5 2:2\n3\n")
    for block_size in (1, 10, 100):
        source = streams.open(path, block_size=block_size)
        survey = source.survey()
        assert survey.classes.tolist() == [-1, 0.5, 3]
        assert (survey.width, survey.rows) == (5, 4)
        assert source.schema() == {"format": "svmlight", "zero_based": False, "least_width": 5}
        assert {block.X.shape[1] for block in source.blocks()} == {5}


def test_read_alike_by_a_schema(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"1 0:1 5:1\n")
    (tmp_path / "b.txt").write_bytes(b"1 1:1 2:1\n")
    schema = streams.open(tmp_path / "a.txt").schema()
    (block,) = streams.open(tmp_path / "b.txt", schema=schema).blocks()
    assert block.X.toarray().tolist() == [[0, 1, 1, 0, 0, 0]]


@pytest.mark.parametrize("zero_based", [True, False, "auto"])
def test_more_columns_than_n_features(tmp_path, zero_based):
    path = tmp_path / "wide.txt"
    path.write_bytes(b"1 1:1\n1 2:1\n1 7:1\n")
    with pytest.raises(streams.StreamError, match=r"wide.txt.*column 7, more than n_features=6"):
        list(streams.open(path, n_features=6, zero_based=zero_based, block_size=1).blocks())
    (block,) = streams.open(path, n_features=9, zero_based=zero_based).blocks()
    assert block.X.shape == (3, 9)


def test_a_file_is_known_by_its_content(tmp_path):
    path = tmp_path / "some.txt"
    path.write_bytes(b"1 1:1\n")
    identity = streams.open(path).identity()
    assert streams.open(path).identity() == identity
    (tmp_path / "copy.txt").write_bytes(b"1 1:1\n")
    assert streams.open(tmp_path / "copy.txt").identity() == identity
    for other in (b"1 1:2\n", b"1 1:1\n\n", b""):
        path.write_bytes(other)
        assert streams.open(path).identity() != identity


def test_large_files_are_known_by_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("maxmargin.streams.source.IDENTITY_PIECES", 4)
    monkeypatch.setattr("maxmargin.streams.source.IDENTITY_PIECE", 10)
    path = tmp_path / "some.txt"
    text = b"1 1:1\n" * 1000
    path.write_bytes(text)
    identity = streams.open(path).identity()
    for changed in (b"2" + text[1:], text[:-2] + b"2\n", text + b"\n"):
        path.write_bytes(changed)
        assert streams.open(path).identity() != identity


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing.txt"):
        streams.open(tmp_path / "missing.txt")
    with pytest.raises(FileNotFoundError, match=tmp_path.name):
        streams.open(tmp_path)


def test_files_that_vanish(tmp_path):
    path = tmp_path / "some.txt"
    path.write_bytes(b"1 1:1\n")
    source = streams.open(path)
    path.unlink()
    with pytest.raises(streams.StreamError, match=r"some.txt changed .* cannot be found"):
        list(source.blocks())


@pytest.mark.parametrize(
    ("option", "value"), [("zero_based", "no"), ("on_error", "ignore"), ("block_size", 0)]
)
def test_options_that_make_no_sense(option, value):
    with pytest.raises(ValueError, match=f"{option} must be"):
        streams.open(io.BytesIO(b""), format="svmlight", **{option: value})
    with pytest.raises(ValueError, match="label= is not an option of svmlight sources"):
        streams.open(io.BytesIO(b""), label=0)


@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 5, 9, 10, 11, 2**22])
def test_a_byte_order_mark_is_passed_over(block_size):
    """At the beginning, and nowhere else: there it belongs to a label."""
    mark = b"\xef\xbb\xbf"
    X, y = read(mark + b"1 1:2\n-1 2:3\n", block_size=block_size)
    assert y.tolist() == [1.0, -1.0]
    assert X.toarray().tolist() == [[2.0, 0.0], [0.0, 3.0]]
    X, y = read(mark + b"\n" + b"1 1:2\n-1 2:3", block_size=block_size)
    assert y.tolist() == [1.0, -1.0]
    with pytest.raises(streams.StreamError, match="line 2, column 1: expected a label"):
        read(b"1 1:2\n" + mark + b"-1 2:3\n", block_size=block_size)


@pytest.mark.parametrize("block_size", [0, -1, 2**31, 2**40, 1e6, "1"])
@pytest.mark.parametrize("source", ["svmlight", "csv", "array", "iterator"])
def test_sizes_of_blocks(source, block_size):
    made = {
        "svmlight": (io.BytesIO(b"1 1:1\n"), {}),
        "csv": (io.BytesIO(b"a,y\n1,2\n"), {"format": "csv"}),
        "array": (np.ones((2, 2)), {"y": np.arange(2)}),
        "iterator": ([(np.ones((2, 2)), np.arange(2))], {}),
    }
    rows, options = made[source]
    if source == "csv":
        pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="block_size must be a whole number from 1 to 1,073,741,8"):
        streams.open(rows, block_size=block_size, **options)
