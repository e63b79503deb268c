"""The arena: learners of this library and of others on the same data, losses included.

`datasets` loads the data, `streams` and `batch` are the two leagues with their contenders, `cells`
measures and keeps results, `ranks` compares contenders over data sets, and `page` renders
``docs/arena.md``.
"""
