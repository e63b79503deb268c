"""Rows of features from numbers, categories and words.

Running means and variances follow B. P. Welford, "Note on a method for calculating corrected sums
of squares and products", row by row, so that the boundaries of blocks make no difference.
"""

from __future__ import annotations

import numpy as np

from maxmargin.core.numba_backend import Compiled, helper

NOWHERE = -1  # instead of a column: no entry

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_FIVE, _ADDED = np.uint32(5), np.uint32(0xE6546B64)
_MIX1, _MIX2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
UNDERSCORE, FIRST_BEYOND_ASCII, CONTINUES = 95, 128, 0xC0


@Compiled
def standardise(numbers, counts, means, squares, scaled, learn, whole, inverses, variances):  # type: ignore[no-untyped-def]
    """Replace rows of numbers by ``(x - mean) / deviation``, learning both along the way.

    ``counts``, ``means`` and ``squares`` (the sums of squared deviations) are those of each column
    up to and including the present row; later columns are not numeric and are ignored. Columns that
    are not ``scaled`` stay as they are. Missing values (NaN) are replaced by the mean so far;
    ``whole`` says that there are no missing values.

    Divisions and roots take most of the time: columns with the same count share a division, and
    the others are done for several rows at once. ``inverses`` and ``variances`` are buffers for a
    row, and for several rows of ones.
    """
    step, size, many = 1.0 if learn else 0.0, counts.size, variances.shape[0]
    together, seen = whole and size > 0, counts[0] if size > 0 else 0.0
    for k in range(size):
        together = together and counts[k] == seen
    for first in range(0, numbers.shape[0], many):
        rows = min(many, numbers.shape[0] - first)
        for i in range(rows):
            row, spread = numbers[first + i], variances[i]
            if together:
                seen += step
                inverse = 1.0 / max(seen, 1.0)
                for k in range(size):
                    inverses[k] = inverse
            else:
                for k in range(size):
                    counts[k] += step if row[k] == row[k] else 0.0
                    inverses[k] = 1.0 / max(counts[k], 1.0)
            for k in range(size):
                # Without branches, so that it is vectorized.
                x = row[k] if row[k] == row[k] else means[k]
                before = x - means[k]
                mean = means[k] + step * (before * inverses[k])
                square = squares[k] + step * (before * (x - mean))
                means[k], squares[k] = mean, square
                variance = square * inverses[k]
                row[k] = x - mean if scaled[k] else x
                variance = variance if variance > 0.0 else np.inf
                spread[k] = variance if scaled[k] else 1.0
        block, spreads = numbers[first : first + rows].reshape(-1), variances[:rows].reshape(-1)
        for j in range(block.size):
            block[j] /= np.sqrt(spreads[j])
    if together:
        for k in range(size):
            counts[k] = seen


@Compiled
def are_moderate(numbers, largest):  # type: ignore[no-untyped-def]
    """Whether all of them are numbers, and none is larger."""
    exceptions = 0
    for x in numbers:
        exceptions += not abs(x) <= largest
    return exceptions == 0


@Compiled
def scale_entries(  # type: ignore[no-untyped-def]
    values, columns, starts, learned, rows, counts, means, squares
):
    """Divide the entries of a CSR matrix by the deviation of their column, zeros included.

    ``counts``, ``means`` and ``squares`` are those of stored entries in rows that are ``learned``;
    ``rows`` is the number of these rows before, and the number after is returned. Nothing is
    subtracted, so that zeros stay zeros.
    """
    for i in range(starts.size - 1):
        learn = learned[i]
        if learn:
            rows += 1.0
        for place in range(starts[i], starts[i + 1]):
            k, x = columns[place], values[place]
            if learn:
                counts[k] += 1.0
                before = x - means[k]
                means[k] += before / counts[k]
                squares[k] += before * (x - means[k])
            zeros = max(rows - counts[k], 0.0)
            total = squares[k] + means[k] * means[k] * counts[k] * zeros / max(rows, 1.0)
            variance = total / max(rows, 1.0)
            values[place] = x / np.sqrt(variance) if variance > 0.0 else x
    return rows


@Compiled
def assemble(dense, places, hashed, hashed_values, words, size, out):  # type: ignore[no-untyped-def]
    """One CSR matrix of all features, in ascending order of columns, without zeros.

    Parameters
    ----------
    dense : numbers of the first columns
    places : columns of entries 1, ascending in each row; `NOWHERE` is none
    hashed, hashed_values : columns and values of entries from column ``size`` on, in any order
    words : values, columns and starts of such entries, ascending in each row
    out : values, columns and starts, to be filled; returns how many entries there are
    """
    values, columns, starts = words
    out_values, out_columns, out_starts = out
    filled = 0
    for i in range(dense.shape[0]):
        for k in range(dense.shape[1]):
            if dense[i, k] != 0.0:
                out_values[filled], out_columns[filled] = dense[i, k], k
                filled += 1
        for k in range(places.shape[1]):
            if places[i, k] != NOWHERE:
                out_values[filled], out_columns[filled] = 1.0, places[i, k]
                filled += 1
        _sort_pairs(hashed[i], hashed_values[i])
        first, k, word, last = filled, 0, starts[i], starts[i + 1]
        while k < hashed.shape[1] or word < last:
            if word == last or (k < hashed.shape[1] and hashed[i, k] <= columns[word]):
                column, value = hashed[i, k], hashed_values[i, k]
                k += 1
            else:
                column, value = columns[word], values[word]
                word += 1
            if column == NOWHERE or value == 0.0:
                continue
            if filled > first and out_columns[filled - 1] == size + column:
                out_values[filled - 1] += value
            else:
                out_values[filled], out_columns[filled] = value, size + column
                filled += 1
        out_starts[i + 1] = filled
    return filled


@helper
def _sort_pairs(keys, values):  # type: ignore[no-untyped-def]
    """Insertion sort, which is stable, for few keys."""
    for k in range(1, keys.size):
        key, value, at = keys[k], values[k], k
        while at > 0 and keys[at - 1] > key:
            keys[at], values[at] = keys[at - 1], values[at - 1]
            at -= 1
        keys[at], values[at] = key, value


@helper
def _sort(keys):  # type: ignore[no-untyped-def]
    """Shell sort with gaps 3 k + 1."""
    gap = 1
    while 3 * gap + 1 < keys.size:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(gap, keys.size):
            key, at = keys[k], k
            while at >= gap and keys[at - gap] > key:
                keys[at] = keys[at - gap]
                at -= gap
            keys[at] = key
        gap //= 3


@helper
def murmur(text, length, seed):  # type: ignore[no-untyped-def]
    """MurmurHash3 (x86, 32 bits) of the first ``length`` bytes."""
    h = np.uint32(seed)
    blocks = length // 4
    for block in range(blocks):
        at = 4 * block
        k = (
            np.uint32(text[at])
            | np.uint32(text[at + 1]) << np.uint32(8)
            | np.uint32(text[at + 2]) << np.uint32(16)
            | np.uint32(text[at + 3]) << np.uint32(24)
        )
        h = _mixed_in(h, k)
        h = np.uint32((h << np.uint32(13)) | (h >> np.uint32(19)))
        h = np.uint32(h * _FIVE + _ADDED)
    k = np.uint32(0)
    for at in range(length - 1, 4 * blocks - 1, -1):
        k = np.uint32(k << np.uint32(8)) ^ np.uint32(text[at])
    if length % 4:
        h = _mixed_in(h, k)
    h ^= np.uint32(length)
    h = np.uint32((h ^ (h >> np.uint32(16))) * _MIX1)
    h = np.uint32((h ^ (h >> np.uint32(13))) * _MIX2)
    return np.int64(np.int32(h ^ (h >> np.uint32(16))))


@helper
def _mixed_in(h, k):  # type: ignore[no-untyped-def]
    k = np.uint32(k * _C1)
    k = np.uint32((k << np.uint32(15)) | (k >> np.uint32(17)))
    return np.uint32(h ^ np.uint32(k * _C2))


@helper
def _is_of_word(byte):  # type: ignore[no-untyped-def]
    return (
        48 <= byte <= 57
        or 97 <= byte <= 122
        or 65 <= byte <= 90
        or byte == UNDERSCORE
        or byte >= FIRST_BEYOND_ASCII
    )


@Compiled
def measure_words(text, starts):  # type: ignore[no-untyped-def]
    """How many words the texts ``text[starts[i]:starts[i + 1]]`` have at most, and the longest."""
    count = longest = length = 0
    for i in range(starts.size - 1):
        length = 0
        for at in range(starts[i], starts[i + 1]):
            if not _is_of_word(text[at]):
                length = 0
                continue
            count += length == 0
            length += 1
            longest = max(longest, length)
    return count, longest


@Compiled
def hash_words(text, starts, buffer, prefix, mask, seed, out):  # type: ignore[no-untyped-def]
    """The words of texts as a CSR matrix with rows of norm 1; returns the number of entries.

    A word is two or more letters, digits or underscores, in lower case (all characters beyond ASCII
    count as letters, and are not changed). Its column is the masked hash of a prefix, the first
    ``prefix`` bytes of ``buffer``, and the word; its value is its count, before normalization.
    """
    out_values, out_columns, out_starts = out
    filled = 0
    for i in range(starts.size - 1):
        first, at, end = filled, starts[i], starts[i + 1]
        while at < end:
            length, letters = prefix, 0
            while at < end and _is_of_word(text[at]):
                byte = text[at]
                buffer[length] = byte + 32 if 65 <= byte <= 90 else byte
                letters += (byte & CONTINUES) != FIRST_BEYOND_ASCII
                length += 1
                at += 1
            if letters >= 2:
                out_columns[filled] = abs(murmur(buffer, length, seed)) & mask
                filled += 1
            at += 1
        last, filled, square = filled, first, 0.0
        _sort(out_columns[first:last])
        for place in range(first, last):
            column = out_columns[place]
            if filled > first and out_columns[filled - 1] == column:
                out_values[filled - 1] += 1.0
            else:
                out_columns[filled], out_values[filled] = column, 1.0
                filled += 1
        for place in range(first, filled):
            square += out_values[place] * out_values[place]
        for place in range(first, filled):
            out_values[place] /= np.sqrt(square)
        out_starts[i + 1] = filled
    return filled
