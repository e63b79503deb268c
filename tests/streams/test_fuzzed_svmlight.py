"""The reader of svmlight text never differs from a slow one, whatever the text."""

from campaigns.svmlightfiles import fuzz_svmlight


def test_mutated_texts():
    report = fuzz_svmlight(1000, seed=0)
    assert report.files == 1000
    # Both what can be read and what cannot has been tried.
    assert report.rows > 1000
    assert 300 < report.refused < 900
