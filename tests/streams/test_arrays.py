"""Arrays and matrices, in memory and in files, as blocks of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin.streams import StreamError
from maxmargin.streams.arrays import ArraySource


def make_rows(rows=50, columns=7, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < 0.4)
    return X, rng.choice([-1, 1], rows)


def rows_of(source, start=0):
    blocks = list(source.blocks(start))
    dense = [block.X.toarray() if sparse.issparse(block.X) else block.X for block in blocks]
    y = None if blocks[0].y is None else np.concatenate([block.y for block in blocks])
    return np.vstack(dense), y


def sources_of(X, y, folder, **options):
    """The rows in each form."""
    matrix = sparse.csr_matrix(X)
    yield ArraySource(X, y=y, **options)
    yield ArraySource(matrix, y=y, **options)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    yield ArraySource(folder / "X.npy", y=folder / "y.npy", **options)
    np.save(folder / "F.npy", np.asfortranarray(X))
    yield ArraySource(folder / "F.npy", y=y, **options)
    np.savez(folder / "stored.npz", X=X, y=y)
    yield ArraySource(folder / "stored.npz", **options)
    np.savez_compressed(folder / "packed.npz", X=X, y=y)
    yield ArraySource(folder / "packed.npz", **options)
    for kind in ("csr", "csc"):
        for compressed in (False, True):
            path = folder / f"{kind}-{compressed}.npz"
            sparse.save_npz(path, matrix.asformat(kind), compressed=compressed)
            yield ArraySource(path, y=y, **options)


@pytest.mark.parametrize("block_size", [1, 300, 10**6])
def test_all_forms_give_the_same_rows(tmp_path, block_size):
    X, y = make_rows()
    for source in sources_of(X, y, tmp_path, block_size=block_size):
        survey = source.survey()
        assert survey.classes.tolist() == [-1, 1]
        assert (survey.width, survey.rows) == (7, 50)
        for found, truth in zip(rows_of(source), (X, y), strict=True):
            np.testing.assert_array_equal(found, truth)


def test_blocks_go_on_where_one_ended(tmp_path):
    X, y = make_rows()
    for source in sources_of(X, y, tmp_path, block_size=400):
        blocks = list(source.blocks())
        assert len(blocks) > 3
        assert blocks[-1].done == source.total
        for at, block in enumerate(blocks[:-1]):
            assert [b.end for b in source.blocks(block.end)] == [b.end for b in blocks[at + 1 :]]
            rest, labels = rows_of(source, block.end)
            np.testing.assert_array_equal(rest, X[block.end :])
            np.testing.assert_array_equal(labels, y[block.end :])


def test_blocks_are_views():
    X, y = make_rows()
    matrix = sparse.csr_matrix(X)
    for block in ArraySource(X, y=y, block_size=300).blocks():
        assert np.shares_memory(block.X, X)
        assert np.shares_memory(block.y, y)
    for block in ArraySource(matrix, y=y, block_size=300).blocks():
        assert np.shares_memory(block.X.data, matrix.data)
        assert np.shares_memory(block.X.indices, matrix.indices)


@pytest.mark.parametrize("order", ["C", "F"])
def test_files_are_read_block_by_block(tmp_path, order):
    """No memory is mapped: that would end the process with a truncated file."""
    X, _ = make_rows()
    np.save(tmp_path / "X.npy", np.asarray(X, order=order))
    blocks = list(ArraySource(tmp_path / "X.npy", block_size=300).blocks())
    assert len(blocks) > 3
    assert not any(isinstance(block.X, np.memmap) for block in blocks)


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [("f4", "f4"), ("f8", "f8"), ("i4", "f8"), ("u1", "f8"), ("?", "f8"), (">f8", "f8")],
)
def test_types(dtype, kept):
    X = np.array([[0, 1], [1, 0]]).astype(dtype)
    for rows in (X, sparse.csr_matrix(X.astype(kept)).astype(np.dtype(dtype).newbyteorder("="))):
        (block,) = ArraySource(rows).blocks()
        assert block.X.dtype == np.dtype(kept)
        assert block.y is None
    np.testing.assert_array_equal(block.X.toarray(), [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros(3), None, "expected two dimensions"),
        (np.array([["a"]]), None, "expected numbers"),
        (np.zeros((2, 2), complex), None, "expected numbers"),
        (np.zeros((2, 2)), np.zeros(3), "2 rows, but labels of shape"),
    ],
)
def test_bad_arrays(X, y, message):
    with pytest.raises(StreamError, match=message):
        ArraySource(X, y=y)


def test_labels_in_parts(monkeypatch):
    monkeypatch.setattr("maxmargin.streams.arrays.AT_ONCE", 2)
    X = np.zeros((5, 1))
    classes = ArraySource(X, y=np.array([3.0, 1.0, 2.5, 1.0, 9.0])).survey().classes
    assert classes.tolist() == [1.0, 2.5, 3.0, 9.0]
    assert ArraySource(X, y=np.array([3.0, 1, 2, 1, 9])).survey().classes.dtype == np.int64
    assert ArraySource(X, y=np.array(list("cabca"))).survey().classes.tolist() == ["a", "b", "c"]


def test_objects_in_files_are_refused(tmp_path):
    evil = np.array([[print]], dtype=object)
    np.save(tmp_path / "evil.npy", evil)
    np.savez(tmp_path / "evil.npz", X=evil)
    np.savez_compressed(tmp_path / "packed.npz", X=evil)
    for name in ("evil.npy", "evil.npz", "packed.npz"):
        with pytest.raises(StreamError, match=r"Object arrays cannot be loaded|Python objects"):
            ArraySource(tmp_path / name)


def test_other_archives_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    with pytest.raises(StreamError, match="neither an array X nor a sparse matrix"):
        ArraySource(tmp_path / "other.npz")


def test_damaged_matrices_are_refused(tmp_path):
    X, _ = make_rows()
    matrix = sparse.csr_matrix(X)
    matrix.indices[3] = 10**6
    sparse.save_npz(tmp_path / "columns.npz", matrix, compressed=False)
    with pytest.raises(StreamError, match="damaged"):
        ArraySource(tmp_path / "columns.npz")
    matrix = sparse.csr_matrix(X)
    matrix.indptr[3] = 10**6
    sparse.save_npz(tmp_path / "rows.npz", matrix, compressed=False)
    with pytest.raises(StreamError, match="damaged"):
        ArraySource(tmp_path / "rows.npz")


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(["X.npy", "stored.npz", "packed.npz"]), data=st.data())
def test_damaged_files_are_refused_or_read(tmp_path_factory, name, data):
    folder = tmp_path_factory.mktemp("damaged")
    list(sources_of(*make_rows(5, 2), folder))
    content = bytearray((folder / name).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:at]
    else:
        content[at] = data.draw(st.integers(0, 255))
    (folder / name).write_bytes(content)
    try:
        blocks = list(ArraySource(folder / name).blocks())
    except StreamError:
        return
    assert all(block.X.ndim == 2 for block in blocks)


def test_identity_tells_arrays_apart(tmp_path):
    X, y = make_rows(3000, 100)
    known = ArraySource(X, y=y).identity()
    assert ArraySource(X.copy(), y=y).identity() == known
    for row in (0, 1500, 2999):
        other = X.copy()
        other[row, 50] += 1
        assert ArraySource(other, y=y).identity() != known
    assert ArraySource(X, y=-y).identity() != known
    np.save(tmp_path / "X.npy", X)
    assert ArraySource(tmp_path / "X.npy").identity() == ArraySource(tmp_path / "X.npy").identity()


def test_lack_of_memory_is_not_damage(tmp_path, monkeypatch):
    def out_of_memory(*_, **__):
        raise MemoryError("no room")

    np.save(tmp_path / "X.npy", np.ones((2, 2)))
    monkeypatch.setattr(np, "load", out_of_memory)
    with pytest.raises(MemoryError, match="no room"):
        ArraySource(tmp_path / "X.npy")
