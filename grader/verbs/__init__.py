"""The verbs of the command, one a file: `grader NAME` is the command `NAME` in `NAME.py` (with `_` behind a Python keyword)."""
