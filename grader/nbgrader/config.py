"""What nbgrader is told. Its configuration file is executed several times, so everything is assigned and nothing appended."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..course import find_course

_HERE = __name__.rpartition(".")[0]
_STOCK = "nbgrader.preprocessors"
# `lastfirst_LATE_12345_67890_lesson-1.ipynb` of Canvas, `Name_12345_assignsubmission_file_/lesson.ipynb` of Moodle
_WHO = r"(?:[\s\S]*[/\\])?[^/\\]+?_(?:LATE_)?(?P<student_id>\d+)_(?:\d+_|assignsubmission_file_?[/\\])"


def configure(c: Any) -> None:
    """Let nbgrader grade, comment and export this course. Notebooks that are not the course's are treated as ever."""
    modules = find_course(Path.cwd()).modules
    c.GenerateAssignment.preprocessors = [
        *_stock("IncludeHeaderFooter", "InstantiateTests", "LockCells"), f"{_HERE}.released.KeepStubs",
        *_stock("ClearOutput", "CheckCellMetadata", "ComputeChecksums", "SaveCells"),
        *_stock("ClearHiddenTests", "ClearMarkScheme", "ComputeChecksums", "CheckCellMetadata"),
    ]  # fmt: skip
    c.Autograde.sanitize_preprocessors = [
        *_stock("ClearOutput"), f"{_HERE}.released.Restore",
        *(f"{_HERE}.released.{name}" for name in ("Deduplicate", "Kernelspec", "Overwrite", "Check")),
    ]  # fmt: skip
    c.Autograde.autograde_preprocessors = [
        f"{_HERE}.grading.Grade", *_stock("IgnorePattern"), "nbconvert.preprocessors.ClearMetadataPreprocessor",
        *_stock("LimitOutput"), f"{_HERE}.grading.Save", *_stock("AssignLatePenalties"), f"{_HERE}.released.Check",
    ]  # fmt: skip
    c.OverwriteCells.add_missing_cells = True
    c.ExportApp.plugin_class = f"{_HERE}.export.ByExercise"
    c.FileNameCollectorPlugin.named_regexp = rf"{_WHO}(?P<file_id>{'|'.join(map(re.escape, modules))})\b[^/\\]*"


def _stock(*names: str) -> list[str]:
    return [f"{_STOCK}.{name}" for name in names]
