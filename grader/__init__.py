"""grader: runs the checks of a course against a student's submission and reports the score."""

__version__ = "0.1.0"
