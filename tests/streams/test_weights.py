"""Weights of rows, from every kind of source."""

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from streamed import Breaking, svmlight_text
from streams.rows import everything

from maxmargin import AMIRA, Perceptron, streams
from maxmargin.streams import StreamError
from maxmargin.training.online import OnlineTrainer

WEIGHTS = st.floats(0.0, allow_nan=False, allow_infinity=False)
HERE = st.none() | WEIGHTS
BAD_NUMBERS = {"negative": -1.0, "infinite": np.inf, "missing": np.nan}


def weights_of(source, start=0):
    """Of all rows, with 1 where a block has none."""
    blocks = list(source.blocks(start))
    assert all(block.weight is None or block.weight.dtype == np.float64 for block in blocks)
    assert all(block.weight is None or block.weight.shape == block.y.shape for block in blocks)
    return [
        weight
        for block in blocks
        for weight in (np.ones(block.y.size) if block.weight is None else block.weight).tolist()
    ]


def some_rows(rows=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)).round(3)
    weight = rng.choice([0.0, 0.5, 1.0, 2.0, 3.25], rows)
    return X, np.where(X[:, 0] > 0, 1, -1), weight


# ---------------------------------------------------------------------------------------- svmlight
@settings(max_examples=150, deadline=None)
@given(st.lists(HERE, max_size=12), st.sampled_from([1, 7, 30, 2**21]))
def test_svmlight_gives_the_weights_that_are_written(weights, block_size):
    lines = [
        f"{row % 2}{'' if weight is None else f':{weight!r}'} {row + 1}:1\n"
        for row, weight in enumerate(weights)
    ]
    text = "".join(lines).encode()
    source = streams.open(io.BytesIO(text), zero_based=False, block_size=block_size)
    assert weights_of(source) == [1.0 if weight is None else weight for weight in weights]
    plain = "".join(f"{row % 2} {row + 1}:1\n" for row in range(len(weights))).encode()
    found, expected = (
        everything(streams.open(io.BytesIO(each), zero_based=False, least_width=12).blocks())
        for each in (text, plain)
    )
    assert found[1].tolist() == expected[1].tolist()
    assert (found[0] != expected[0]).nnz == 0


def test_svmlight_without_weights_has_none():
    (block,) = streams.open(io.BytesIO(b"1 1:1\n-1 qid:3 2:1\n")).blocks()
    assert block.weight is None
    blocks = streams.open(io.BytesIO(b"1 1:1\n-1:3 qid:3 2:1\n"), block_size=1).blocks()
    assert [None if block.weight is None else block.weight.tolist() for block in blocks] == [
        None,
        [3.0],
    ]


@pytest.mark.parametrize("line", ["1:0.5 qid:7 1:1", "1:.5\t1:1 # x", "+1:5e-1#", "1.0:0.5"])
def test_where_a_weight_stands(line):
    (block,) = streams.open(io.BytesIO(f"{line}\n-1 1:1\n".encode())).blocks()
    assert block.weight.tolist() == [0.5, 1.0]
    assert block.y.tolist() == [1.0, -1.0]


def test_numbers_that_only_python_reads_exactly():
    numbers = ["0.500000000000000166533453693773481063544750213623046875", "4.9e-324", "9" * 30]
    text = "".join(f"{number}:{number} 1:{number}\n" for number in numbers).encode()
    (block,) = streams.open(io.BytesIO(text)).blocks()
    expected = [float(number) for number in numbers]
    assert block.weight.tolist() == expected
    assert block.y.tolist() == expected
    assert block.X.data.tolist() == expected


def test_a_weight_that_python_finds_infinite():
    text = b"1 1:1\n-1:1.797693134862315807937289714053103e308 1:1\n"
    with pytest.raises(StreamError, match="line 2, column 4: the weight is too large"):
        list(streams.open(io.BytesIO(text)).blocks())


def test_skipped_lines_leave_no_weights():
    text = b"1 1:1\n1:7 1:x\n1:-1 1:1\n-1 1:1\n"
    source = streams.open(io.BytesIO(text), on_error="skip")
    (block,) = source.blocks()
    assert (block.weight, block.y.tolist(), source.skipped) == (None, [1.0, -1.0], 2)
    text += b"-1:2 1:1\n1:8 1:x\n"
    (block,) = streams.open(io.BytesIO(text), on_error="skip").blocks()
    assert block.weight.tolist() == [1.0, 1.0, 2.0]


# ------------------------------------------------------------------------------------------ tables
CSV = "size,cost,side,answer\n0.5,2,1,no\n0.25,0,-1,yes\n0.75,1.5,1,yes\n"


def tables(folder, text=CSV, **options):
    """The same table in each form."""
    pacsv = pytest.importorskip("pyarrow.csv")
    (folder / "table.csv").write_text(text)
    table = pacsv.read_csv(folder / "table.csv")
    pytest.importorskip("pyarrow.parquet").write_table(table, folder / "table.parquet")
    pytest.importorskip("pyarrow.feather").write_feather(table, folder / "table.arrow")
    yield streams.open(folder / "table.csv", **options)
    yield streams.open(folder / "table.parquet", **options)
    yield streams.open(folder / "table.arrow", **options)
    pytest.importorskip("narwhals")
    yield streams.open(table, **options)


@pytest.mark.parametrize("weight", ["cost", 1, -3])
@pytest.mark.parametrize("block_size", [1, 2**20])
def test_the_column_of_a_table(tmp_path, weight, block_size):
    for source in tables(tmp_path, label="answer", weight=weight, block_size=block_size):
        assert weights_of(source) == [2.0, 0.0, 1.5]
        schema = json.loads(json.dumps(source.schema()))
        assert (schema["weight"], schema["columns"]) == ("cost", ["size", "side"])
        again = streams.open(tmp_path / "table.csv", schema=schema)
        assert weights_of(again) == [2.0, 0.0, 1.5]
        assert again.survey().width == 2


def test_no_column_is_taken_for_weights_by_its_name(tmp_path):
    for source in tables(tmp_path, CSV.replace("cost", "weight"), label="answer"):
        assert {block.weight for block in source.blocks()} == {None}
        assert "weight" not in source.schema()
        assert "weight" in source.schema()["columns"]


def test_a_table_to_predict_needs_no_weights(tmp_path):
    first = next(tables(tmp_path, label="answer", weight="cost"))
    (tmp_path / "more.csv").write_text("side,size\n1,3\n")
    source = streams.open(tmp_path / "more.csv", schema=first.schema(), needs_label=False)
    (block,) = source.blocks()
    assert (block.y, block.weight, block.X.tolist()) == (None, None, [[3.0, 1.0]])
    (tmp_path / "labelled.csv").write_text("side,size,answer\n1,3,no\n")
    with pytest.raises(StreamError, match=r"labelled.csv: no column 'cost'; there are 'side'"):
        streams.open(tmp_path / "labelled.csv", schema=first.schema())


@pytest.mark.parametrize("trouble", BAD_NUMBERS)
def test_bad_weights_in_tables(tmp_path, trouble):
    written = {"negative": "-1", "infinite": "inf", "missing": ""}[trouble]
    text = CSV.replace("0.25,0,", f"0.25,{written},")
    for source in tables(tmp_path, text, label="answer", weight="cost"):
        message = f"{source.name}, row 2, column 'cost': the weight is {trouble}."
        with pytest.raises(StreamError) as raised:
            list(source.blocks())
        assert str(raised.value) == message
    for source in tables(tmp_path, text, label="answer", weight="cost", on_error="skip"):
        assert weights_of(source) == [2.0, 1.5]
        assert source.skipped == 1


def test_text_as_weights(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    (tmp_path / "t.csv").write_text(CSV.replace("0.25,0,", "0.25,heavy,"))
    with pytest.raises(StreamError) as raised:
        list(streams.open(tmp_path / "t.csv", label="answer", weight="cost").blocks())
    assert "t.csv, row 2, column 'cost': expected a number" in str(raised.value)
    skipping = streams.open(tmp_path / "t.csv", label="answer", weight="cost", on_error="skip")
    assert (weights_of(skipping), skipping.skipped) == ([2.0, 1.5], 1)
    table = arrow.table({"a": [1.0, 2.0], "w": ["1", "2"], "y": [0, 1]})
    with pytest.raises(StreamError, match="column 'w' is text, expected a number"):
        streams.open(table, weight="w")


def test_columns_that_cannot_be_weights(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.csv"
    path.write_text(CSV)
    for place in ("costs", 4, -5):
        with pytest.raises(StreamError, match=f"no column {place!r}; there are 'size', 'cost'"):
            streams.open(path, label="answer", weight=place)
    with pytest.raises(StreamError, match="column 'answer' cannot be both label and weight"):
        streams.open(path, label="answer", weight=-1)
    (tmp_path / "y.csv").write_text("a,y,class\n1,2,0\n2,1,1\n")
    source = streams.open(tmp_path / "y.csv", weight="y")  # so it cannot be the label
    assert weights_of(source) == [2.0, 1.0]
    assert source.survey().classes.tolist() == [0, 1]


# ------------------------------------------------------------------------------------------ arrays
def arrays(folder, X, y, weight, **options):
    """The rows in each form."""
    yield streams.open(X, y, weight=weight, **options)
    yield streams.open(sparse.csr_matrix(X), y, weight=weight, **options)
    for name, array in {"X": X, "y": y, "w": weight}.items():
        np.save(folder / f"{name}.npy", array)
    yield streams.open(folder / "X.npy", folder / "y.npy", weight=folder / "w.npy", **options)
    for name in ("weight", "sample_weight"):
        for save in (np.savez, np.savez_compressed):
            save(folder / "all.npz", X=X, y=y, **{name: weight})
            yield streams.open(folder / "all.npz", **options)


@pytest.mark.parametrize("block_size", [1, 100, 2**20])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
def test_arrays(tmp_path, block_size, dtype):
    X, y, weight = some_rows()
    weight = weight.astype(dtype)
    for source in arrays(tmp_path, X, y, weight, block_size=block_size):
        assert weights_of(source) == weight.astype(np.float64).tolist()
        first = next(source.blocks())
        assert weights_of(source, first.end) == weight[first.end :].astype(float).tolist()


@pytest.mark.parametrize("trouble", BAD_NUMBERS)
def test_bad_weights_of_arrays(tmp_path, trouble):
    X, y, weight = some_rows()
    weight[17] = BAD_NUMBERS[trouble]
    for source in arrays(tmp_path, X, y, weight, block_size=100):
        with pytest.raises(StreamError) as raised:
            list(source.blocks())
        assert str(raised.value) == f"{source.name}, row 18: the weight is {trouble}."


def test_arrays_that_are_no_weights(tmp_path):
    X, y, weight = some_rows()
    with pytest.raises(StreamError, match=r"<ndarray>: 30 rows, but weights of shape \(29,\)"):
        streams.open(X, y, weight=weight[1:])
    with pytest.raises(StreamError, match=r"<ndarray>: expected numbers as weights, found <U"):
        streams.open(X, y, weight=weight.astype(str))
    np.savez(tmp_path / "two.npz", X=X, y=y, weight=weight, sample_weight=weight)
    with pytest.raises(StreamError, match=r"two.npz: there are two arrays of weights"):
        streams.open(tmp_path / "two.npz")


def test_other_weights_are_another_source(tmp_path):
    X, y, weight = some_rows()
    others = weight.copy()
    others[0] += 1.0
    np.save(tmp_path / "X.npy", X)
    for rows in (X, tmp_path / "X.npy"):
        known = [
            streams.open(rows, y, **given).identity()
            for given in ({}, {"weight": weight}, {"weight": others})
        ]
        assert len(set(known)) == 3
    blocks = [[(X, y)], [(X, y, weight)], [(X, y, others)]]
    assert len({streams.open(each).identity() for each in blocks}) == 3


# --------------------------------------------------------------------------------------- iterables
def test_iterables_of_blocks():
    X, y, weight = some_rows()
    for cuts in ([30], [1, 7, 7, 30]):
        parts = np.split(np.arange(30), cuts)
        source = streams.open([(X[part], y[part], weight[part]) for part in parts])
        assert weights_of(source) == weight.tolist()
        assert weights_of(source, 5) == weight[5:].tolist()
    once = streams.open((X[[i]], y[[i]], weight[[i]]) for i in range(30))
    assert weights_of(once) == weight.tolist()
    assert weights_of(streams.open([(X, y, None)])) == [1.0] * 30


def test_iterables_of_dicts(monkeypatch):
    monkeypatch.setattr("maxmargin.streams.iterators.ROWS_AT_ONCE", 4)
    X, y, weight = some_rows()
    rows = [
        (dict(zip("abc", x, strict=True)), label, each)
        for x, label, each in zip(X.tolist(), y.tolist(), weight.tolist(), strict=True)
    ]
    assert weights_of(streams.open(rows)) == weight.tolist()
    assert weights_of(streams.open([(row, label) for row, label, _ in rows])) == [1.0] * 30


ROW, BLOCK = ({"a": 1.0}, 1), (np.eye(2), [0, 1])


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([(*BLOCK, [1, 2]), BLOCK], "block 2: some rows have weights, some none"),
        ([BLOCK, (*BLOCK, [1, 2])], "block 2: some rows have weights, some none"),
        ([(*BLOCK, [1, 2, 3])], r"block 1: 2 rows, but weights of shape \(3,\)"),
        ([(*BLOCK, ["a", "b"])], "block 1: expected numbers as weights, found <U1"),
        ([(*BLOCK, [1, 2]), (*BLOCK, [3, -1])], "row 4: the weight is negative"),
        ([(*BLOCK, [1, np.nan])], "row 2: the weight is missing"),
        ([(*BLOCK, [np.inf, 1])], "row 1: the weight is infinite"),
        ([(*BLOCK, [1, 1e60])], "row 2: the weight is 1e.60, beyond 1e-50 to 1e.50"),
        ([(*ROW, 1.0), ROW], "row 2: expected a weight, there is none"),
        ([ROW, (*ROW, 1.0)], "row 1: expected a weight, there is none"),
        ([(*ROW, 1.0), (*ROW, "2")], "row 2: expected a weight, found '2'"),
        ([(*ROW, 1.0), (*ROW, -2)], "row 2: the weight is negative"),
    ],
)
def test_iterables_with_bad_weights(items, message):
    with pytest.raises(StreamError, match=message):
        list(streams.open(items).blocks())


# ---------------------------------------------------------------------------------------- learning
def weighted_text(X, y, weight):
    lines = svmlight_text(X, y).splitlines()
    return "".join(
        line.replace(" ", f":{each!r} ", 1) + "\n"
        for line, each in zip(lines, weight.tolist(), strict=True)
    )


@pytest.fixture
def noted(monkeypatch):
    """What a Perceptron is told about weights, block by block."""
    calls, learn = [], OnlineTrainer.learn

    def note(self, state, batch, **options):
        calls.append(batch.weight)
        return learn(self, state, batch._replace(weight=None), **options)

    monkeypatch.setattr(OnlineTrainer, "learn", note)
    return calls


def test_learners_are_told_of_weights_where_there_are_some(noted):
    text = b"1 1:1\n-1:2 1:-1\n1:0 1:2\n-1 2:3\n"
    source = streams.open(io.BytesIO(text), zero_based=False, n_features=2, block_size=1)
    Perceptron().fit_stream(source, classes=[-1, 1])
    told = [each if each is None else each.tolist() for each in noted]
    assert told == [None, [2.0], [0.0], None]


@pytest.mark.parametrize("block_size", [1, 60, 2**20])
def test_weights_of_a_stream_are_those_of_partial_fit(tmp_path, block_size):
    X, y, weight = some_rows(60)
    (tmp_path / "rows.svm").write_text(weighted_text(X, y, weight))
    expected = AMIRA().partial_fit(X, y, [-1, 1], sample_weight=weight)
    for source in (
        streams.open(tmp_path / "rows.svm", block_size=block_size),
        streams.open(X, y, weight=weight, block_size=block_size),
        streams.open([(X, y, weight)]),
    ):
        found = AMIRA().fit_stream(source)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        np.testing.assert_array_equal(found.intercept_, expected.intercept_)


@pytest.mark.parametrize("block_size", [1, 60, 2**20])
def test_weights_of_1_are_no_weights(tmp_path, block_size):
    """Also where only some lines say so."""
    X, y, _ = some_rows(60)
    (tmp_path / "plain.svm").write_text(svmlight_text(X, y))
    lines = weighted_text(X, y, np.ones(60)).splitlines(keepends=True)
    lines[::3] = svmlight_text(X, y).splitlines(keepends=True)[::3]
    (tmp_path / "ones.svm").write_text("".join(lines))
    found, expected = (
        AMIRA().fit_stream(streams.open(tmp_path / name, block_size=block_size), passes=3)
        for name in ("ones.svm", "plain.svm")
    )
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.n_updates_ == expected.n_updates_


def test_the_margin_is_that_of_the_rows_that_count(tmp_path):
    X, y, _ = some_rows(60)
    X[:, 0] += 0.5 * y
    wrong = np.vstack([X, X[:3]]), np.concatenate([y, -y[:3]])
    weight = np.concatenate([np.ones(60), np.zeros(3)])
    learner = AMIRA(tol=0.5)
    found = learner.fit_stream(streams.open(*wrong, weight=weight, block_size=100), passes=50)
    assert found.certificate_.margin > 0.0
    assert found.converged_


def test_going_on_with_weights(tmp_path):
    X, y, weight = some_rows(60)
    y[::7] *= -1
    path = tmp_path / "rows.svm"
    path.write_text(weighted_text(X, y, weight))

    def source():
        return streams.open(path, block_size=200)

    expected = AMIRA().fit_stream(source(), passes=2)
    with pytest.raises(OSError, match="cable"):
        AMIRA().fit_stream(Breaking(source(), 4), checkpoint=tmp_path / "c", every=1, passes=2)
    found = AMIRA().fit_stream(source(), checkpoint=tmp_path / "c", every=1, passes=2)
    np.testing.assert_array_equal(found.coef_, expected.coef_)


def test_a_checkpoint_knows_which_column_had_the_weights(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.csv"
    path.write_text(CSV)
    Perceptron().fit_stream(streams.open(path, label="answer"), checkpoint=tmp_path / "c")
    with pytest.raises(StreamError, match="read differently before, with other options"):
        Perceptron().fit_stream(
            streams.open(path, label="answer", weight="cost"), checkpoint=tmp_path / "c"
        )
