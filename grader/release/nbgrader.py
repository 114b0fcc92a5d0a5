"""`grader release --for nbgrader`: a course folder. What it holds may be read by every student."""

from __future__ import annotations

import re

from ..build import build
from ..course import Course
from . import Files

CONFIG = '''\
"""How nbgrader grades this course: the engine's own settings. Yours may follow, such as c.CourseDirectory.course_id."""

from grader.nbgrader import configure

configure(c)  # noqa: F821  # nbgrader brings c
'''


def files(course: Course) -> Files:
    """`source/ASSIGNMENT/*.ipynb` in the form in which they are released, and `nbgrader_config.py`."""
    assignment = re.sub(r"\W+", "-", course.title.lower()).strip("-")
    notebooks = {path.name: text for path, text in build(course).items() if path.suffix == ".ipynb"}
    return {
        "nbgrader_config.py": CONFIG.encode(),
        **{f"source/{assignment}/{name}": text.encode() for name, text in notebooks.items()},
    }
