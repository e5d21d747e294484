"""The rooms of mqpg (with workers and spark) and of the lab, and which room may import which: one table, no circle.

An arrow points downward: the library does not know the command line, the workers or the audit, and the stores do not
know producers or consumers. Imports inside functions and for type checkers count like all others.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from setup import FOLDERS as PACKAGE

ROOT = Path(__file__).parents[2]

FOLDERS = PACKAGE | {"lab": "lab"}
Rooms = dict[str, tuple[tuple[str, ...], tuple[str, ...]]]

# Room -> its modules, and the rooms that it imports. `name.*` is a package with everything below it, another name is
# one module, and the longest name that fits counts. `_sync` is generated from `_async` and has the same rooms. A room's
# floor is one above the highest floor that it imports.
QUEUE: Rooms = {
    "sql": (("mqpg.sql.*",), ()),
    "values": (("mqpg.values.*",), ()),
    "connection": (("mqpg.connection.*",), ("values",)),
    "tracing": (("mqpg.tracing.*",), ("values",)),
    "compat": (
        ("mqpg._async", "mqpg._async._acompat", "mqpg._async._batcher", "mqpg._async.closing"),
        ("connection", "values"),
    ),
    "schema": (("mqpg.schema.*",), ("connection", "values")),
    "user_tables": (("mqpg.user_tables.*",), ("connection", "values")),
    "alembic": (("mqpg.alembic.*",), ("user_tables", "values")),
    "embedded": (("mqpg.embedded.*",), ("connection", "schema", "values")),
    "handlers": (("mqpg.handlers.*",), ("connection", "user_tables", "values")),
    "stores": (("mqpg._async.stores.*",), ("compat", "connection", "tracing", "user_tables", "values")),
    "client": (("mqpg._async.client.*",), ("compat", "connection", "embedded", "schema", "tracing", "values")),
    "consumer": (
        ("mqpg._async.consumer.*",),
        ("client", "compat", "connection", "handlers", "stores", "tracing", "user_tables", "values"),
    ),
    "producer": (("mqpg._async.producer.*",), ("client", "compat", "connection", "stores", "user_tables", "values")),
    "public": (
        ("mqpg", "mqpg.application", "mqpg.decorator", "mqpg.protocols", "mqpg.errors", "mqpg.migrate", "mqpg.tables"),
        ("client", "consumer", "handlers", "producer", "schema", "stores", "user_tables", "values"),
    ),
    "contrib": (("mqpg.contrib.*",), ("public", "user_tables")),
    "status": (("mqpg.status.*",), ("connection", "embedded", "public", "values")),
    "testing": (("mqpg.testing.*",), ("embedded", "public", "schema")),
    "workers": (("mqpg.workers.*",), ("connection", "handlers", "public", "schema", "user_tables", "values")),
    "cli": (
        ("mqpg.__main__", "mqpg.cli.*"),
        ("connection", "embedded", "public", "schema", "status", "user_tables", "values"),
    ),
    "metrics": (("mqpg.metrics.*",), ("status", "values")),
    "web": (("mqpg.web.*",), ("connection", "metrics", "public", "status", "values")),
    "workers/cli": (
        ("mqpg.workers.cli", "mqpg.workers.start", "mqpg.workers.supervisor"),
        ("cli", "connection", "embedded", "metrics", "public", "schema", "status", "values", "workers"),
    ),
    "web/cli": (("mqpg.web.cli",), ("cli", "values", "web")),
}
PROOF: Rooms = {
    "spark/pipeline": (("mqpg.spark.pipeline.*",), ("connection", "values")),
    "audit": (("mqpg.audit.*",), ("connection", "user_tables", "values")),
    "spark": (("mqpg.spark",), ("spark/pipeline",)),
    "audit/sql": (
        ("mqpg.audit.sql.*",),
        ("audit", "connection", "embedded", "schema", "user_tables", "values"),
    ),
    "spark/read": (("mqpg.spark.read.*",), ("audit/sql", "connection", "values")),
    "spark/workspace": (
        ("mqpg.spark.workspace", "mqpg.spark.dialect"),
        ("audit", "audit/sql", "connection", "spark/read"),
    ),
    "spark/jobs": (
        ("mqpg.spark.jobs.*",),
        ("audit", "audit/sql", "embedded", "public", "schema", "spark/read", "spark/workspace", "values"),
    ),
    "spark/engine": (("mqpg.spark.engine",), ("audit", "spark/jobs", "spark/read", "values")),
    "spark/machine": (("mqpg.spark.machine",), ("spark/read", "status", "values")),
    "audit/cli": (("mqpg.audit.cli", "mqpg.audit.capture"), ("audit", "audit/sql", "cli", "values")),
    "crashtest": (
        ("mqpg.crashtest.*",),
        (
            "audit",
            "audit/sql",
            "cli",
            "connection",
            "embedded",
            "handlers",
            "public",
            "schema",
            "user_tables",
            "values",
        ),
    ),
    "spark/cli": (("mqpg.spark.cli.*",), ("cli", "spark/jobs", "spark/read", "values")),
}
LAB: Rooms = {
    "lab": (("lab",), ()),
    "lab/proof": (("lab.proof.*",), ()),
    "lab/fuzz": (("lab.fuzz.*",), ("embedded", "public")),
    "lab/shared": (
        ("lab.audits", "lab.command", "lab.processes", "lab.proxy"),
        ("audit", "connection", "public"),
    ),
    "lab/pipeline": (("lab.pipeline.*",), ("embedded", "lab/shared", "public", "spark", "spark/read")),
    "lab/soak": (("lab.soak.*",), ("embedded", "lab/shared", "public")),
    "lab/bench": (("lab.bench.*",), ("cli", "connection", "embedded", "lab/shared", "public", "schema", "workers")),
    "lab/chaos": (("lab.chaos.*",), ("audit", "cli", "connection", "embedded", "lab/shared", "public", "schema")),
    "lab/demo": (("lab.demo.*",), ("audit", "cli", "embedded", "lab/shared", "public")),
    "lab/failover": (("lab.failover.*",), ("embedded", "lab", "lab/shared", "lab/soak", "public")),
    "lab/years": (("lab.years.*",), ("embedded", "lab/shared", "lab/soak", "public")),
    "lab/cost": (("lab.cost.*",), ("embedded", "lab/bench")),
    "lab/rocketmq": (("lab.rocketmq.*",), ("embedded", "lab/bench", "lab/shared", "public", "schema")),
    "lab/silence": (("lab.silence.*",), ("lab/chaos", "lab/shared", "public")),
    "lab/tests": (
        ("lab.tests.*",),
        (
            "embedded",
            "lab/bench",
            "lab/chaos",
            "lab/cost",
            "lab/demo",
            "lab/fuzz",
            "lab/shared",
            "lab/silence",
            "lab/years",
            "public",
            "schema",
        ),
    ),
}
ROOMS: Rooms = QUEUE | PROOF | LAB
FLOORS = 12  # of the package mqpg
ROOT_MODULES = 8


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


@cache
def graph() -> dict[str, set[str]]:
    """What each module imports."""
    return {name: imports(name, path, MODULES) for name, path in MODULES.items()}


def room_of(module: str) -> str | None:
    """The room that names a module, by the longest name that fits."""
    module = module.replace("mqpg._sync", "mqpg._async", 1)
    found = [
        (len(name), room)
        for room, (names, _) in ROOMS.items()
        for name in names
        if module == name.removesuffix(".*") or (name.endswith(".*") and module.startswith(name[:-1]))
    ]
    return max(found)[1] if found else None


def arrows() -> dict[tuple[str, str], list[str]]:
    """From room to room, with the imports behind it."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, wanted in graph().items():
        for other in sorted(wanted):
            pair = (str(room_of(name)), str(room_of(other)))
            if pair[0] != pair[1]:
                found.setdefault(pair, []).append(f"{name} imports {other}")
    return found


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The first circle that is found; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_room_names_every_module() -> None:
    assert [module for module in MODULES if not room_of(module)] == [], "in no room: add them to ROOMS"


def test_every_name_in_the_table_is_a_module() -> None:
    named = {name.removesuffix(".*") for names, _ in ROOMS.values() for name in names}
    assert named <= set(MODULES)


def test_every_import_is_in_the_table() -> None:
    forbidden = {pair: why for pair, why in arrows().items() if pair[1] not in ROOMS[pair[0]][1]}
    assert forbidden == {}


def test_the_table_allows_no_more_than_there_is() -> None:
    allowed = {(room, other) for room, (_, below) in ROOMS.items() for other in below}
    assert allowed - set(arrows()) == set()


def test_no_circle_between_modules() -> None:
    assert circle(graph()) == []


def test_the_package_has_few_floors() -> None:
    floors: dict[str, int] = {}
    for room in TopologicalSorter({room: below for room, (_, below) in (QUEUE | PROOF).items()}).static_order():
        floors[room] = 1 + max((floors[below] for below in ROOMS[room][1]), default=0)
    assert max(floors.values()) <= FLOORS, floors


def test_the_root_has_few_modules() -> None:
    assert len(list((ROOT / "mqpg").glob("*.py"))) <= ROOT_MODULES


@pytest.mark.parametrize(("part", "allowed"), [(QUEUE, {*QUEUE}), (PROOF, {*QUEUE, *PROOF})], ids=["queue", "proof"])
def test_a_part_imports_only_parts_below_it(part: Rooms, allowed: set[str]) -> None:
    for room, (_, below) in part.items():
        assert set(below) <= allowed, room


def test_workers_and_spark_do_not_know_each_other() -> None:
    for room, (_, below) in ROOMS.items():
        kind = room.partition("/")[0]
        others = {"workers": "spark", "spark": "workers"}.get(kind)
        assert not others or not [other for other in below if other.startswith(others)]


def test_asynchronous_and_synchronous_do_not_mix() -> None:
    for name, wanted in graph().items():
        for here, there in (("mqpg._async", "mqpg._sync"), ("mqpg._sync", "mqpg._async")):
            if name.startswith(here):
                assert not [other for other in wanted if other.startswith(there)], name


@pytest.mark.parametrize(
    ("module", "line", "found"),
    [
        ("p.a", "from .b import x", {"p.b"}),
        ("p.a", "from . import b", {"p.b"}),
        ("p.a", "from p import b", {"p.b"}),
        ("p.a", "import p.b", {"p.b"}),
        ("p.a", "from p.c.d import x", {"p.c.d"}),
        ("p.a", "def f():\n    from .c import d", {"p.c.d"}),
        ("p.a", "if TYPE_CHECKING:\n    from p.c import y", {"p.c"}),
        ("p.a", "import json", set()),
        ("p.c.d", "from ..b import x", {"p.b"}),
    ],
)
def test_imports_are_found(module: str, line: str, found: set[str], tmp_path: Path) -> None:
    for path in ("p/__init__.py", "p/a.py", "p/b.py", "p/c/__init__.py", "p/c/d.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    known = modules(tmp_path, {"p": "p"})
    assert set(known) == {"p", "p.a", "p.b", "p.c", "p.c.d"}
    known[module].write_text(line)
    assert imports(module, known[module], known) == found


def test_a_circle_is_found() -> None:
    assert set(circle({"a": ["b"], "b": ["c"], "c": ["a"]})) == {"a", "b", "c"}
