# For type checkers alone, see `test_types.py`; it would want files that are not there.
collect_ignore = ["typed_program.py"]
