"""`mqpg archive`: write closed segments to Parquet files."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from mqpg.cli.options import Dsn, Json
from mqpg.cli.progress import progress
from mqpg.values.errors import ConfigurationError

__all__ = ["archive"]


def archive(
    to: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder of the archive.", show_default=False, file_okay=False)
    ],
    rows: Annotated[int, typer.Option(help="The most rows in a file.", min=1)] = 100_000,
    longest: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="How long reading one file may hold up the keeper. Larger files are split.", min=0.1
        ),
    ] = 30,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Write the closed segments that are not archived yet to Parquet files.

    Each file is read back, compared with the broker, and noted there. Needs the rights of a worker
    and of an auditor.
    """
    try:
        from .run import archive as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise ConfigurationError("the package pyarrow is missing: pip install 'mqpg[archive]'") from error
    with progress(f"archive to {to}"):
        done = run(to, dsn, rows=rows, longest=longest)
    if json:
        typer.echo(json_module.dumps({"files": done.files, "rows": done.rows, "waiting": done.waiting}))
        return
    for table, files in sorted(done.files.items()):
        typer.echo(f"{table}: {files} {'file' if files == 1 else 'files'}, {done.rows[table]:,} rows")
    if not done.files:
        typer.echo("nothing to archive")
    for table in done.waiting:
        typer.echo(f"{table}: a transaction that may write into it is open; the next run writes it")
