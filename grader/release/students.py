"""A student's workspace: stubs, notebooks, visible checks, the engine; no solution, hidden check or code of a mistake."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..build import build
from ..course import HERE, Course
from ..diagnosis.stored import FILE
from ..formats import FORMATS
from . import AUDIENCES, Files, ReleaseError, lookup
from .closure import beside, imports, reached
from .recorded import oracle_file, recorded

ENGINE = Path(__file__).resolve().parents[1]
VERBS = ("grade", "hint", "show", "watch")
BEGINNINGS = (  # what is imported by a computed name, and so is not seen from elsewhere
    *("pytest_plugin", "__main__", "confined.zygote", "confined.spawned", "notebook"),
    *(f"verbs.{verb}" for verb in VERBS),
    *(f"formats.{name}" for name in FORMATS),
)
INSTRUCTORS = {"submission", "solutions", "stubs", "hidden", "show_hidden", "requirements", *AUDIENCES}  # keys of [tool.grader]
UNUSED = ("hypothesispytest", "logging", "unraisableexception")  # plugins that make a third of what pytest adds to a cold start
TEMPLATES = Path(__file__).with_name("templates")


def files(course: Course) -> Files:
    """The files of the workspace, by path. Raises ReleaseError, and BuildError for a faulty solution."""
    oracle = oracle_file(course)
    checks = [path for path in _checks(course) if path != oracle]
    made: Files = {
        **(stubs := dict(_stubs(course))),
        "README.md": _readme(course, notebooks=any(name.endswith(".ipynb") for name in stubs)).encode(),
        HERE: _pyproject(course).encode(),
        "conftest.py": (TEMPLATES / "conftest.py").read_bytes(),
        **_copies(course.root, checks),
        **_copies(ENGINE.parent, _engine(checks)),
        **_copies(course.root, filter(Path.is_file, [course.root / "LICENSE"])),
    }
    dues, mistakes = recorded(course)
    if oracle.is_file():
        made[oracle.relative_to(course.root).as_posix()] = Path(lookup.__file__).read_bytes()
        made[oracle.with_name(lookup.TABLE.name).relative_to(course.root).as_posix()] = dues.encode()
    if mistakes:
        made[FILE] = mistakes.encode()
    return dict(sorted(made.items()))


def _stubs(course: Course) -> Iterator[tuple[str, bytes]]:
    """The exercise files at the top, where they are looked for; notebooks in a folder of their own, for a .py hides one."""
    for path, content in build(course).items():
        folder = "" if path.suffix == ".py" else "notebooks/"
        yield f"{folder}{path.name}", content.encode()


def _checks(course: Course) -> list[Path]:
    """The visible checks, and what they and the symptoms import."""
    package = course.visible.parent
    own = [path for path in course.visible.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    modules = [*(path for path in own if path.suffix == ".py"), *filter(Path.is_file, [course.symptoms])]
    names = [".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__") for path in modules]
    found = {*own, *reached(package.parent, package.name, names)}
    if stray := [path for path in found if course.hidden in path.parents]:
        raise ReleaseError(f"a visible check imports {stray[0].relative_to(course.root)}, which is hidden")
    return sorted(found)


def _engine(checks: list[Path]) -> list[Path]:
    """What the student's verbs and these checks need of the engine, with its data."""
    asked = [name for path in checks if path.suffix == ".py" for name in imports(path)]
    needed = reached(ENGINE.parent, ENGINE.name, [*asked, *(f"{ENGINE.name}.{name}" for name in BEGINNINGS)])
    return [*needed, *beside(needed)]


def _copies(root: Path, paths: Any) -> Files:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def _pyproject(course: Course) -> str:
    """The course's own, less what only an instructor needs."""
    try:
        import tomli_w
    except ImportError:
        raise ReleaseError("a release needs tomli-w: pip install -e '.[instructor]'") from None
    table = tomllib.loads((course.root / HERE).read_text(encoding="utf-8"))
    tool, project = table.get("tool", {}), table.get("project", {})
    project["optional-dependencies"] = _extras(project, tool["grader"].get("students", {}))
    settings = {key: value for key, value in tool["grader"].items() if key not in INSTRUCTORS}
    kept = {
        "build-system": table.get("build-system"),
        "project": project,
        "tool": {
            "hatch": tool.get("hatch"),
            "pytest": _pytest(course, tool.get("pytest", {})),
            "grader": {**settings, "submission": "."},
        },
    }
    return tomli_w.dumps(_without_nothing(kept), multiline_strings=True)


def _extras(project: Mapping[str, Any], students: Mapping[str, Any]) -> dict[str, Any]:
    return {name: needs for name, needs in project.get("optional-dependencies", {}).items() if name in students.get("extras", ())}


def _pytest(course: Course, table: Mapping[str, Any]) -> dict[str, Any]:
    """Strict as the course's own. A library's warning is no error: it would be the grader's fault on a student's machine."""
    options = {key: value for key, value in table.get("ini_options", {}).items() if key != "filterwarnings"}
    strict = [*(flag for flag in options.get("addopts", ()) if not flag.startswith("-r")), "-rN"]  # the lesson has the last word
    quick = [flag for name in UNUSED for flag in ("-p", f"no:{name}")]
    folders = [course.visible.relative_to(course.root).as_posix()]
    return {"ini_options": {**options, "addopts": [*strict, *quick], "testpaths": folders}}


def _without_nothing(table: Any) -> Any:
    if not isinstance(table, dict):
        return table
    return {key: _without_nothing(value) for key, value in table.items() if value not in (None, {})}


def _readme(course: Course, notebooks: bool) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    lessons = {module: [item.function for item in course.exercises if item.module == module] for module in course.modules}
    template = Environment(loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True)
    there = [verb for verb in VERBS if (ENGINE / "verbs" / f"{verb}.py").is_file()]
    return template.get_template("students.md.j2").render(course=course, lessons=lessons, verbs=there, notebooks=notebooks)
