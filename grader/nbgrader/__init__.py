"""nbgrader with the confined runner behind it: one line in nbgrader_config.py, `configure(c)`."""

from .config import configure

__all__ = ["configure"]
