"""CSV as people have it: newlines inside of quotes, marks, encodings, decimal commas."""

import io

import numpy as np
import pytest
from campaigns.csvtables import fuzz_tables
from extent import everything_or

from maxmargin.streams import START, OptionWarning, StreamError, csv_text
from maxmargin.streams.csv_rows import ends_of_rows, tidy, walk

pytest.importorskip("pyarrow")

pytestmark = pytest.mark.usefixtures("few_objects")
SIZES = [1, 7, 30, 10**6]


def reader_of(content, *, skip=False, block_size=10**6, header=True, delimiter=None, **options):
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    return csv_text.CsvReader(
        file, header=header, delimiter=delimiter, skip=skip, block_size=block_size, **options
    )


def read(reader, kinds=None):
    """All rows as lists, with None for what is missing, and how many were skipped."""
    kinds = kinds or reader.kinds()
    pieces = [reader.read(piece, kinds) for piece in reader.pieces(START, kinds)]
    for error in (piece.error for piece in pieces if piece.error):
        raise error
    values = (row.values() for piece in pieces for row in piece.table.to_pylist())
    rows = [[None if value != value else value for value in row] for row in values]
    return rows, sum(len(piece.lost) for piece in pieces)


def test_tables_are_read_as_python_reads_them(tmp_path):
    assert fuzz_tables(everything_or(500, 2_000), seed=0, folder=tmp_path) > 25


@pytest.mark.parametrize("block_size", SIZES)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_newlines_inside_of_quotes(block_size, mark):
    text = mark + b'"first\nname",y\r\n"a\r\n\nb",1\r\n\r\n"",2\r\n"say ""no""\n","3"'
    reader = reader_of(text, block_size=block_size)
    assert reader.kinds() == {"first\nname": "text", "y": "number"}
    assert read(reader_of(text, block_size=block_size)) == (
        [["a\r\n\nb", 1.0], ["", 2.0], ['say "no"\n', 3.0]],
        0,
    )


BAD_ROWS = [
    (b'"x\ny",1,2', "line 5: 3 fields, expected 2 (a quote makes one row of lines 5 to 6)"),
    (b"x", "line 5: 1 fields, expected 2"),
    (b'"x\ny",no', "line 5, column 'y': expected a number, found 'no'"),
    (b'"x\ny"z,1', "line 5: there is a quote that is not around a value (a quote makes one row"),
    (b'5" pipe,1', "line 5: there is a quote that is not around a value."),
    (b'x"y"z,1', "line 5: there is a quote that is not around a value."),
    (b'"x"\ry,1', "line 5: there is a quote|line 5: there is a carriage return in the line"),
    (b"x\ry,1", "line 5: there is a carriage return in the line"),
]


@pytest.mark.parametrize(("row", "message"), BAD_ROWS)
@pytest.mark.parametrize("block_size", SIZES)
@pytest.mark.parametrize("others", [1, 40])
def test_bad_rows_between_rows_of_many_lines(row, message, block_size, others):
    good = b'"a\n""b",1\n'
    text = b"t,y\n" + good + b"\n" + row + b"\n" + good * others
    with pytest.raises(StreamError) as caught:
        read(reader_of(text, block_size=block_size), {"t": "text", "y": "number"})
    assert any(part in str(caught.value) for part in message.split("|"))
    skipping = reader_of(text, block_size=block_size, skip=True)
    expected = [['a\n"b', 1.0]] * (1 + others), 1
    assert read(skipping, {"t": "text", "y": "number"}) == expected


@pytest.mark.parametrize("block_size", [10, 100, 10**6])
def test_a_quote_that_is_never_closed_names_its_line(block_size, monkeypatch, tmp_path):
    text = b't,y\n"a\nb",1\nc,"2\n' + b"d,3\n" * 1000
    told = "line 4: a quote is opened here, and never closed"
    with pytest.raises(StreamError, match=told):
        read(reader_of(text, block_size=block_size, skip=True), {"t": "text", "y": "text"})
    monkeypatch.setattr(csv_text, "LONGEST_ROW", 500)
    path = tmp_path / "open.csv"
    path.write_bytes(text)
    told = "line 4: a quote is opened here, and n"
    if block_size < 500:
        told += "ot closed in the next 500 bytes"
    with pytest.raises(StreamError, match=told):
        read(reader_of(path, block_size=block_size, skip=True), {"t": "text", "y": "text"})


# As `pandas.read_csv` documents na_values.
OF_PANDAS = (
    *(" ", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)


@pytest.mark.parametrize("missing", ["", "?", *OF_PANDAS, '"?"', '""'])
def test_what_is_missing(missing):
    text = f"x,y\n{missing},1\n2,{missing}\n".encode()
    reader = reader_of(text)
    assert reader.kinds() == {"x": "number", "y": "number"}
    assert read(reader_of(text))[0] == [[None, 1], [2, None]]


@pytest.mark.parametrize("block_size", SIZES)
def test_more_values_may_be_missing(block_size):
    text = b"x,y\n--,1\n2, unknown \n3,4\n"
    options = {"na_values": ["--", "unknown"], "block_size": block_size}
    numbers = {"x": "number", "y": "number"}
    assert reader_of(text, na_values=["--", "unknown"]).kinds() == numbers
    assert read(reader_of(text, **options), numbers)[0] == [[None, 1], [2, None], [3, 4]]
    with pytest.raises(StreamError, match=r"found '--' \(kinds=.*, na_values=\['--'\] such value"):
        read(reader_of(text, block_size=block_size), numbers)


# --------------------------------------------------------------------- is the first line a header?
@pytest.mark.parametrize(
    "first", ["5.1,3.5,1", "1,1,1", "-1e3, .5 ,+4", "1,,3", "?,2,NaN", "2019,2020,2021", "1,2,3"]
)
@pytest.mark.parametrize("block_size", SIZES)
def test_a_first_line_of_numbers_is_data(first, block_size):
    text = f"{first}\n4,5,6\n".encode()
    with pytest.warns(OptionWarning, match="only numbers: it is read as data.*header=True"):
        guessed = reader_of(text, header=None, block_size=block_size)
    assert not guessed.has_header
    told = reader_of(text, header=False, block_size=block_size)
    assert list(guessed.kinds()) == ["0", "1", "2"]
    rows = read(guessed)[0]
    assert len(rows) == 2
    assert rows == read(told)[0]


@pytest.mark.parametrize(
    "first", ["a,b,c", "x,?,NA", "0,1,y", ",0,y", '"a ""1""",b,c', "x1,x2,3rd"]
)
def test_a_first_line_of_names_is_none(first):
    reader = reader_of(f"{first}\n4,5,6\n".encode(), header=None)
    assert reader.has_header
    assert read(reader, dict.fromkeys(reader.kinds(), "number"))[0] == [[4, 5, 6]]


@pytest.mark.parametrize(
    ("first", "number"),
    [("5.1,3.5,setosa", "5.1"), ("country,2019,2020", "2019"), ("0,1,2", "0"), (",0,1", "0")],
)
def test_a_first_line_with_some_numbers_is_taken_for_names_with_a_warning(first, number):
    text = f"{first}\n4,5,6\n".encode()
    with pytest.warns(OptionWarning, match=f"though '{number}' is a number; use header=True"):
        reader = reader_of(text, header=None)
    assert list(reader.kinds()) == first.split(",")
    assert list(reader_of(text, header=True).kinds()) == first.split(",")
    assert list(reader_of(text, header=False).kinds()) == ["0", "1", "2"]


def test_decimal_commas_in_the_first_line():
    with pytest.warns(OptionWarning, match="only numbers"):
        reader = reader_of(b"1,5;2\n2,5;3\n", header=None, decimal=",")
    assert read(reader)[0] == [[1.5, 2], [2.5, 3]]


# ----------------------------------------------------------------------- what a column is taken for
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["03816", "10115", "80331"], "text"),
        (["007", "8", "9"], "text"),
        (["0", "10", "0.5", "-0.25", "00.5"], "number"),
        # One rare mistake among few distinct values, and one frequent placeholder among many.
        ([*"12345" * 20, "oops"], "number"),
        ([*map(str, range(100)), *["-"] * 50], "number"),
        (["1", "2", "3", "oops", "oops"], "text"),
    ],
)
def test_kinds_of_values(values, kind):
    assert csv_text.kind_of_values(values) == kind


@pytest.mark.parametrize("block_size", SIZES)
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "iso8859-15", "koi8-r", "Latin1"])
def test_encodings_with_a_byte_for_each_letter(encoding, block_size):
    text = "Größe,y\nà\n,1\n".replace("à\n", '"à\nÿ"').encode("latin-1")
    kinds = ["text", "number"]
    reader = reader_of(text, encoding=encoding, block_size=block_size)
    decoded = text.decode(encoding)
    assert list(reader.kinds()) == [decoded.split(",")[0], "y"]
    assert list(reader.kinds().values()) == kinds
    assert read(reader)[0] == [[decoded.split('"')[1], 1]]


@pytest.mark.parametrize("encoding", ["utf-16", "shift_jis", "euc_jp", "gbk", "cp037", "utf-7"])
def test_other_encodings_are_refused(encoding):
    cure = f"convert the file: iconv -f {encoding} -t UTF-8"
    with pytest.raises(StreamError, match=f"encoding must be .*, not '{encoding}'; {cure}"):
        reader_of(b"x,y\n1,2\n", encoding=encoding)


@pytest.mark.parametrize("encoding", ["klingon", "rot13", "hex", "iso2022_jp", ""])
def test_what_is_no_encoding_is_refused(encoding):
    with pytest.raises(StreamError, match=f"single-byte encoding, .*, not '{encoding}'"):
        reader_of(b"x,y\n1,2\n", encoding=encoding)


@pytest.mark.parametrize("skip", [True, False])
def test_bytes_that_are_no_letters(skip):
    text = b"t,y\n" + b"\xe9,1\n" * 30 + b"\x81,2\n" + b"\xe9,1\n" * 30
    kinds = {"t": "text", "y": "number"}
    if skip:
        assert read(reader_of(text, encoding="cp1252", skip=True), kinds) == ([["é", 1]] * 60, 1)
        return
    with pytest.raises(StreamError, match="line 32: the line is not cp1252"):
        read(reader_of(text, encoding="cp1252"), kinds)
    with pytest.raises(StreamError, match=r'line 2: the line is not UTF-8 .*encoding="latin-1"'):
        read(reader_of(text), kinds)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_marks_of_other_encodings_are_known(encoding):
    text = "\ufeffx,y\n1,2\n" if encoding.endswith("be") else "x,y\n1,2\n"
    with pytest.raises(StreamError, match=r"the text is UTF-(16|32); convert the file: iconv"):
        reader_of(text.encode(encoding))


@pytest.mark.parametrize("block_size", SIZES)
def test_decimal_commas(block_size):
    text = b'x;u;y\n1,5;"-2,5e1";1\n,5; 3 ;0\n1.5;2;1\n'
    kinds = dict.fromkeys("xuy", "number")
    skipping = reader_of(text, decimal=",", skip=True, block_size=block_size)
    assert read(skipping, kinds) == ([[1.5, -25, 1], [0.5, 3, 0]], 1)
    with pytest.raises(StreamError, match=r"line 4, column 'x': expected a number, found '1\.5'"):
        read(reader_of(text, decimal=",", block_size=block_size), kinds)


def test_decimal_commas_between_commas():
    text = b'x,y\n"1,5","2"\n'
    assert read(reader_of(text, decimal=",", delimiter=","))[0] == [[1.5, 2]]
    with pytest.raises(StreamError, match=r"decimal must be '\.' or ',', not ';'"):
        reader_of(text, decimal=";")


def test_delimiters_inside_of_quotes_are_not_counted():
    assert list(reader_of(b'"a,b,c";d\n1;2\n').kinds()) == ["a,b,c", "d"]
    assert list(reader_of(b"a,b;c,d;e\n", decimal=",").kinds()) == ["a,b", "c,d", "e"]


@pytest.mark.parametrize("seed", range(20))
def test_rows_end_alike_by_either_way(seed):
    """Vectors of numbers and one letter after another, on text that may be sound or not."""
    rng = np.random.default_rng(seed)
    sound = 0
    for _ in range(100):
        text = "".join(rng.choice(list('a,"\n\r'), rng.integers(30), p=[0.3, 0.3, 0.2, 0.1, 0.1]))
        text = text.replace('"', '""' if rng.random() < 0.3 else '"').encode() + b"\n"
        walked = walk(text, ",")
        assert ends_of_rows(text, ",").tolist() == walked.ends
        if walked.opened < 0 and tidy(text, ",") is not None:
            sound += 1
            ends = walked.ends
            rows = [text[i:j] for i, j in zip([0, *ends], ends, strict=False)]
            assert tidy(text, ",")[1] == sum(bool(row.strip(b"\r\n")) for row in rows)
    assert sound > 3
