"""The whole schema, assembled from its object files in the order that `manifest.txt` gives.

`mqpg.schema` installs it. This module imports nothing of mqpg, so that a tool can load it by its path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.resources.abc import Traversable

__all__ = ["assemble", "described", "manifest"]

_HEADER = """\
-- Assembled from the files named below, in the order of sql/manifest.txt: edit those, not this text.
-- A function may call one that follows it.
set local check_function_bodies = off;
"""
# What runs around the schema: not listed, because it is not part of it.
_APART = ("install/", "migrations/")
# The files whose headers become comments of what they make.
_DESCRIBED = ("types/", "tables/", "functions/", "views/", "audit_views/")
_CREATE = re.compile(r"^create (function|procedure|view|table|type) (mqpg\w*\.\w+)(\(?)", re.M)
_SENTENCE = re.compile(r".*?(?=\.(?:\s|$))", re.S)
_COLUMN = re.compile(r"    (?!check |default |primary key |unique |constraint )(\w+) ")


def manifest(folder: Traversable) -> list[str]:
    """Paths below `folder` in install order.

    A line of `manifest.txt` that ends in / stands for every file below that folder, by name; `#` begins a
    comment. Raises ValueError if the manifest names a file twice, omits one, or names one that does not
    exist.
    """
    present = sorted(path for path in _files(folder) if not path.startswith(_APART))
    paths = []
    for line in (folder / "manifest.txt").read_text(encoding="utf-8").splitlines():
        if name := line.split("#", 1)[0].strip():
            paths += [path for path in present if path.startswith(name)] if name.endswith("/") else [name]
    doubled = sorted({path for path in paths if paths.count(path) > 1})
    if doubled:
        raise ValueError(f"sql/manifest.txt names these twice: {', '.join(doubled)}")
    if missing := sorted(set(paths) - set(present)):
        raise ValueError(f"sql/manifest.txt names files that do not exist: {', '.join(missing)}")
    if omitted := sorted(set(present) - set(paths)):
        raise ValueError(f"sql/manifest.txt does not name: {', '.join(omitted)}")
    return paths


def _files(folder: Traversable, above: str = "") -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(".sql"):
            yield above + entry.name


def assemble(folder: Traversable) -> str:
    """The text of the whole schema, from the folder `sql` of a checkout or the package `mqpg.sql`."""
    parts = []
    for path in manifest(folder):
        text = folder.joinpath(path).read_text(encoding="utf-8").strip()
        parts.append(f"\n-- {path}\n{described(text) if path.startswith(_DESCRIBED) else text}\n")
    return _HEADER + "".join(parts)


def described(text: str) -> str:
    """Add to a file a COMMENT ON with the first sentence of its header, and one for each column.

    The file has one table, type or view, or one function or its overloads. The comment of a table's column is
    what stands behind `--` beside or above it. Those of a view's columns end the file: `-- column: comment`.
    """
    header = " ".join(line[2:].strip() for line in text.partition("\ncreate ")[0].splitlines())
    sentence = _SENTENCE.match(header)
    what = (sentence[0] if sentence else header).strip().replace("'", "''")
    comments = []
    for made in _CREATE.finditer(text):
        arguments = f"({', '.join(_types(text, made.end()))})" if made[3] else ""
        comments.append(f"comment on {made[1]} {made[2]}{arguments} is\n    '{what}';")
        columns: Iterable[tuple[str, str]] = ()
        if made[1] == "table":
            columns = _columns(text[made.end() :].partition("\n)")[0])
        elif made[1] == "view":
            columns = _columns_of_view(text[made.end() :].partition(";\n-- ")[2])
        comments += [f"comment on column {made[2]}.{name} is\n    '{said}';" for name, said in columns]
    return "\n".join([text, *comments])


def _columns(text: str) -> Iterator[tuple[str, str]]:
    """The columns of a table that have a comment, with it. The text is what its parentheses enclose."""
    column, above = "", list[str]()
    for line in text.splitlines():
        code, _, beside = line.partition("-- ")
        if named := _COLUMN.match(code):
            column = named[1]
        above += [beside] if beside else []
        if code.strip() and above:
            yield column, " ".join(above).replace("'", "''")
            above.clear()


def _columns_of_view(text: str) -> Iterator[tuple[str, str]]:
    """The columns of a view that have a comment, with it. The text is what follows the view; longer comments indent."""
    for line in text.replace("\n--     ", " ").splitlines():
        column, _, said = line.removeprefix("-- ").partition(": ")
        yield column, said.replace("'", "''")


def _types(text: str, at: int) -> Iterator[str]:
    """The arguments from `at` to the closing parenthesis, without their defaults."""
    depth, argument = 1, ""
    while depth:
        sign = text[at]
        depth += (sign in "([") - (sign in ")]")
        if depth == 0 or (sign == "," and depth == 1):
            if argument.strip():
                yield " ".join(re.split(r"\bdefault\b", argument)[0].split())
            argument = ""
        else:
            argument += sign
        at += 1
