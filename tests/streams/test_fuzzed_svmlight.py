"""The reader of svmlight text never differs from a slow one, whatever the text."""

from campaigns.svmlightfiles import fuzz_svmlight
from extent import everything_or


def test_mutated_texts():
    count = everything_or(300, 1000)
    report = fuzz_svmlight(count, seed=0)
    assert report.files == count
    # Both what can be read and what cannot has been tried.
    assert report.rows > count
    assert 0.3 * count < report.refused < 0.9 * count
