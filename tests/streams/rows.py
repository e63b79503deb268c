"""What a source gives, in a form that can be compared to the bit."""

import io

import numpy as np
from scipy import sparse

from maxmargin import streams


def everything(blocks):
    """Rows and labels of blocks, in one matrix and one array."""
    blocks = list(blocks)
    if not blocks:
        return sparse.csr_matrix((0, 1)), np.empty(0)
    width = max(block.X.shape[1] for block in blocks)
    parts = []
    for block in blocks:
        block.X.check_format(full_check=True)
        parts.append(
            sparse.csr_matrix(
                (block.X.data, block.X.indices, block.X.indptr), (len(block.y), width)
            )
        )
    return sparse.vstack(parts, format="csr"), np.concatenate([block.y for block in blocks])


def read(text, **options):
    """Rows and labels of a text."""
    return everything(streams.open(io.BytesIO(text), **options).blocks())


def assert_same(some, others, same_width=True):
    """The same stored entries in the same places, to the bit."""
    (X, y), (Z, z) = some, others
    assert y.view(np.int64).tolist() == z.view(np.int64).tolist()
    assert X.indptr.tolist() == Z.indptr.tolist()
    assert X.indices.tolist() == Z.indices.tolist()
    assert X.data.view(np.int64).tolist() == Z.data.view(np.int64).tolist()
    if same_width and len(y):
        assert X.shape == Z.shape
