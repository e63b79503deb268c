# It learns when it is imported, which is what it is for.
collect_ignore = ["warm.py"]
