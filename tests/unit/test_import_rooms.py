"""The rooms of the packages mqpg, workers and spark, and which room may import which: one table, no circle.

An arrow points downward: the library does not know the command line, the workers or the audit, and the stores do not
know producers or consumers. Imports inside functions and for type checkers count like all others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from setup import FOLDERS

ROOT = Path(__file__).parents[2]

# Room -> its modules, and the rooms that it imports. `name.*` is a package with everything below it, another name is
# one module. `_sync` is generated from `_async` and has the same rooms.
ROOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "floor": (
        (
            "mqpg._append_pace",
            "mqpg._backoff",
            "mqpg._broker_connection",
            "mqpg._connect",
            "mqpg._dialects",
            "mqpg._draft",
            "mqpg._file_lock",
            "mqpg._listener",
            "mqpg._sql",
            "mqpg._table_upgrades",
            "mqpg._stop_signals",
            "mqpg._templates",
            "mqpg._text_session",
            "mqpg._stopping",
            "mqpg._time_limit",
            "mqpg.tracing.*",
            "mqpg._travelling",
            "mqpg._tables",
            "mqpg.arguments",
            "mqpg.choices",
            "mqpg.dsn",
            "mqpg.errors",
            "mqpg.handle",
            "mqpg.jdbc_jar",
            "mqpg.cause",
            "mqpg.message",
            "mqpg.migrate",
            "mqpg.remedies",
            "mqpg.schema.*",
            "mqpg.settings",
        ),
        (),
    ),
    "sql": (("mqpg.sql.*",), ()),
    "embedded": (("mqpg.embedded.*",), ("floor",)),
    "handlers": (("mqpg.handlers.*",), ("floor",)),
    # the library, asynchronous and synchronous
    "compat": (("mqpg._async", "mqpg._async._acompat", "mqpg._async._lanes", "mqpg._async.closing"), ("floor",)),
    "client": (("mqpg._async.client.*",), ("floor", "compat")),
    "stores": (("mqpg._async.stores.*",), ("floor", "compat")),
    "consumer": (("mqpg._async.consumer.*",), ("floor", "compat", "client", "stores", "handlers")),
    "producer": (("mqpg._async.producer.*",), ("floor", "compat", "client", "stores")),
    "public": (
        ("mqpg", "mqpg.decorator", "mqpg.protocols"),
        ("floor", "client", "stores", "consumer", "producer", "handlers"),
    ),
    "archive": (
        tuple(f"mqpg.archive{name}" for name in ("", ".broker", ".digest", ".files", ".folder", ".run")),
        ("floor",),
    ),
    "archive/cli": (("mqpg.archive.cli",), ("floor", "archive", "cli")),
    "audit/archived": (("mqpg.audit.archived", "mqpg.audit.archived_files"), ("floor",)),
    "audit/sql": (("mqpg.audit.sql.*",), ("floor", "audit", "audit/archived", "archive")),
    "audit": (("mqpg.audit.*",), ("floor",)),
    # what uses the library
    "testing": (("mqpg.testing.*",), ("floor", "public", "embedded")),
    "status": (("mqpg.status", "mqpg.status.*"), ("floor", "public")),
    "metrics": (("mqpg.metrics.*",), ("floor", "status")),
    "cli": (("mqpg.__main__", "mqpg.cli.*"), ("floor", "public", "embedded", "status")),
    "web": (
        (
            "mqpg.web",
            "mqpg.web.application",
            "mqpg.web.badges",
            "mqpg.web.charts",
            "mqpg.web.failures",
            "mqpg.web.headers",
            "mqpg.web.leads",
            "mqpg.web.pages.*",
            "mqpg.web.rates",
            "mqpg.web.remedies",
            "mqpg.web.rendering",
            "mqpg.web.reports",
            "mqpg.web.rights",
            "mqpg.web.role_login",
            "mqpg.web.scan",
            "mqpg.web.security",
            "mqpg.web.site",
            "mqpg.web.streams",
            "mqpg.web.view",
            "mqpg.web.visit",
        ),
        ("floor", "public", "status", "metrics"),
    ),
    "web/cli": (("mqpg.web.cli",), ("floor", "cli", "metrics", "web")),
    "chaos": (("mqpg.chaos.*",), ("floor", "public", "embedded", "audit")),
    "demo": (("mqpg.demo.*",), ("floor", "public", "embedded", "cli", "audit")),
    "crashtest": (("mqpg.crashtest.*",), ("floor", "public", "handlers", "embedded", "cli", "audit", "audit/sql")),
    "bench": (("mqpg.bench.*",), ("floor", "public", "embedded", "cli")),
    "workers": (
        (
            "mqpg.workers",
            "mqpg.workers.appender",
            "mqpg.workers.checker",
            "mqpg.workers.compensator",
            "mqpg.workers.consume",
            "mqpg.workers.dropping",
            "mqpg.workers.foreign_locks",
            "mqpg.workers.functions",
            "mqpg.workers.heartbeat",
            "mqpg.workers.keeper",
            "mqpg.workers.ledger_seats",
            "mqpg.workers.ledgers",
            "mqpg.workers.logs",
            "mqpg.workers.session",
            "mqpg.workers.supervisor",
            "mqpg.workers.targets",
            "mqpg.workers.unread_groups",
            "mqpg.workers.worker",
        ),
        ("floor", "public"),
    ),
    "workers/cli": (("mqpg.workers.cli",), ("floor", "workers", "cli", "status", "metrics")),
    "spark": (("mqpg.spark",), ()),
    "spark/read": (("mqpg.spark.read.*",), ("floor", "archive", "audit", "audit/archived")),
    "spark/derive": (("mqpg.spark.derive.*",), ("spark/read",)),
    "spark/anomalies": (("mqpg.spark.anomalies.*",), ("spark/read", "spark/derive")),
    "spark/jobs": (
        ("mqpg.spark.jobs.*",),
        ("floor", "public", "audit", "spark/read", "spark/derive", "spark/anomalies"),
    ),
    "spark/cli": (("mqpg.spark.cli.*",), ("floor", "cli", "audit", "audit/sql", "spark/read", "spark/jobs")),
}

# Imports inside a function that point upward, each with its reason.
UPWARD = {
    ("mqpg.dsn", "mqpg.embedded"): "without a DSN, the server of `mqpg up` is used; the DSN 'embedded' starts it",
}

LIBRARY = ("floor", "handlers", "compat", "client", "stores", "consumer", "producer", "public")


def modules(root: Path = ROOT, folders: Mapping[str, str] = FOLDERS) -> dict[str, Path]:
    """Every module by the name that it is imported by."""
    found = {}
    for package, folder in folders.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root / folder).with_suffix("").parts
            found[".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


def imports(name: str, path: Path, known: Iterable[str]) -> set[str]:
    """The known modules that one module imports, wherever in the file."""
    return {module for module in _imports(name, path, set(known)) if module != name}


def _imports(name: str, path: Path, known: set[str]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:  # a name may be a module
                yield from [n for n in (f"{module}.{alias.name}", module) if n in known][:1]


MODULES = modules()
GRAPH = {name: imports(name, path, MODULES) for name, path in MODULES.items()}


def room_of(module: str) -> str | None:
    """The room that names a module."""
    module = module.replace("mqpg._sync", "mqpg._async", 1)
    for room, (names, _) in ROOMS.items():
        for name in names:
            stem = name.removesuffix(".*")
            if module == stem or (name != stem and module.startswith(f"{stem}.")):
                return room
    return None


def arrows() -> dict[tuple[str, str], list[str]]:
    """From room to room, with the imports behind it."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, wanted in GRAPH.items():
        for other in sorted(wanted):
            pair = (str(room_of(name)), str(room_of(other)))
            if pair[0] != pair[1] and (name, other) not in UPWARD:
                found.setdefault(pair, []).append(f"{name} imports {other}")
    return found


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The first circle that is found; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("module", MODULES)
def test_a_room_names_every_module(module: str) -> None:
    assert room_of(module), f"{module} is in no room: add it to ROOMS"


def test_every_name_in_the_table_is_a_module() -> None:
    named = {name.removesuffix(".*") for names, _ in ROOMS.values() for name in names}
    assert named <= set(MODULES)
    assert set(UPWARD) <= {(name, other) for name, wanted in GRAPH.items() for other in wanted}


def test_every_import_is_in_the_table() -> None:
    forbidden = {pair: why for pair, why in arrows().items() if pair[1] not in ROOMS[pair[0]][1]}
    assert forbidden == {}


def test_the_table_allows_no_more_than_there_is() -> None:
    allowed = {(room, other) for room, (_, below) in ROOMS.items() for other in below}
    assert allowed - set(arrows()) == set()


def test_no_circle_between_rooms() -> None:
    assert circle({room: below for room, (_, below) in ROOMS.items()}) == []


def test_no_circle_between_modules() -> None:
    assert circle(GRAPH) == []


def test_the_library_stands_below_everything_else() -> None:
    for room in LIBRARY:
        assert set(ROOMS[room][1]) <= set(LIBRARY)


def test_workers_and_spark_do_not_know_each_other() -> None:
    for room, (_, below) in ROOMS.items():
        kind = room.partition("/")[0]
        others = {"workers": "spark", "spark": "workers"}.get(kind)
        assert not others or not [other for other in below if other.startswith(others)]


def test_asynchronous_and_synchronous_do_not_mix() -> None:
    for name, wanted in GRAPH.items():
        for here, there in (("mqpg._async", "mqpg._sync"), ("mqpg._sync", "mqpg._async")):
            if name.startswith(here):
                assert not [other for other in wanted if other.startswith(there)], name


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from .b import x", {"p.b"}),
        ("from . import b", {"p.b"}),
        ("from p import b", {"p.b"}),
        ("import p.b", {"p.b"}),
        ("from p.c.d import x", {"p.c.d"}),
        ("def f():\n    from .c import d", {"p.c.d"}),
        ("if TYPE_CHECKING:\n    from p.c import y", {"p.c"}),
        ("import json", set()),
    ],
)
def test_imports_are_found(line: str, found: set[str], tmp_path: Path) -> None:
    for path in ("p/__init__.py", "p/a.py", "p/b.py", "p/c/__init__.py", "p/c/d.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "p/a.py").write_text(line)
    known = modules(tmp_path, {"p": "p"})
    assert set(known) == {"p", "p.a", "p.b", "p.c", "p.c.d"}
    assert imports("p.a", known["p.a"], known) == found


def test_a_relative_import_above_its_package(tmp_path: Path) -> None:
    for path in ("p/__init__.py", "p/b.py", "p/c/__init__.py", "p/c/d.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "p/c/d.py").write_text("from ..b import x")
    known = modules(tmp_path, {"p": "p"})
    assert imports("p.c.d", known["p.c.d"], known) == {"p.b"}


def test_a_circle_is_found() -> None:
    assert set(circle({"a": ["b"], "b": ["c"], "c": ["a"]})) == {"a", "b", "c"}
