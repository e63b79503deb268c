"""Learning from shards of rows on many machines.

It is independent of an engine: an `Executor` sends the same question to all shards and merges their
answers. `maxmargin.dask` has one for Dask, and ``docs/clusters.md`` shows those for Ray and Spark.
"""

from __future__ import annotations

from maxmargin.distributed.distributed_fit import fit
from maxmargin.distributed.executor import Executor, Plain, answer, derived, merged, tree
from maxmargin.distributed.shards import File, Held, files

__all__ = [
    "Executor",
    "File",
    "Held",
    "Plain",
    "answer",
    "derived",
    "files",
    "fit",
    "merged",
    "tree",
]
