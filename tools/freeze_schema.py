"""Freeze the schema of a release, with messages in every state, for the tests of upgrades.

    python tools/freeze_schema.py

It writes tests/migration/frozen/RELEASE.sql.gz and RELEASE.json. Run it once for each release, when
its last change of the schema is merged. From then on tests/migration/test_frozen.py upgrades that
schema, so a change of a table needs a numbered migration.
"""

from __future__ import annotations

import gzip
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import psycopg
from psycopg.rows import namedtuple_row

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mqpg import migrate  # noqa: E402
from mqpg.embedded import EmbeddedServer, find_binaries  # noqa: E402
from mqpg.embedded.programs import from_distribution  # noqa: E402
from mqpg.schema.source import RELEASE  # noqa: E402

__all__ = ["dump", "main"]

FOLDER = ROOT / "tests" / "migration" / "frozen"
# Settings of newer servers, commands of psql, and what every database has already.
_LEFT_OUT = re.compile(
    r"^(SET (?!check_function_bodies|standard_conforming_strings).*;"
    r"|\\(un)?restrict .*"
    r"|CREATE SCHEMA public;"
    r"|COMMENT ON SCHEMA public .*"
    r"|ALTER .* OWNER TO (postgres|pg_database_owner);"
    r"|--.*|)\n",
    re.MULTILINE,
)


def dump(pg_dump: str, dsn: str) -> str:
    """The SQL text of a database that servers from PostgreSQL 14 on, and any driver, can run.

    Args:
        pg_dump: The program.
        dsn: The database.
    """
    options = ["--no-toast-compression", "--inserts", "--rows-per-insert=100"]
    options += [f"--schema={name}" for name in ("mqpg", "mqpg_audit", "pgmq")]
    done = subprocess.run([pg_dump, *options, "--dbname", dsn], stdout=subprocess.PIPE, check=True, text=True)
    return _without(done.stdout)


def _without(text: str) -> str:
    """Leave out lines outside of function bodies and values only."""
    parts = re.split(r"(\$\w*\$.*?\$\w*\$;)", text, flags=re.DOTALL)
    return "".join(part if part.startswith("$") else _LEFT_OUT.sub("", part) for part in parts)


def main() -> int:
    """Write the two files and return the exit status."""
    binaries = from_distribution() or find_binaries()
    with EmbeddedServer(binaries=binaries) as server:
        dsn = server.create_database("frozen")
        migrate.upgrade(dsn)
        with psycopg.connect(dsn, autocommit=True, row_factory=namedtuple_row) as connection:
            states = importlib.import_module("tests.support.frozen_states")
            expected = states.fill(connection)
        text = dump(str(binaries / "pg_dump"), dsn)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{RELEASE}.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    target = FOLDER / f"{RELEASE}.sql.gz"
    target.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size} bytes, {len(text)} unpacked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
