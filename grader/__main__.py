"""`python -m grader` is the command `grader`."""

from .cli import main

main(prog_name="grader")
