"""The command `mqpg audit`, the page and the JSON that it prints, and a role to run it as."""

import io
import json
import os
import subprocess
import sys

from rich.console import Console

from mqpg.audit.page import print_page
from mqpg.audit.report import Report, as_json, json_schema
from mqpg.connection.dsn import to_sqlalchemy

__all__ = ["as_role", "page_of", "require_schema", "run", "start"]


def start(*arguments: str, **more: str) -> subprocess.Popen[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MQPG_", "PG", "DATABASE"))
    }
    return subprocess.Popen(
        [sys.executable, "-m", "mqpg", "audit", "--local-threads", "1", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | {"COLUMNS": "160"} | more,
    )


def run(*arguments: str, **more: str) -> tuple[int, str, str]:
    process = start(*arguments, **more)
    out, err = process.communicate(timeout=500)
    return process.returncode, out, err


def page_of(report: Report) -> str:
    """The report as a terminal of 80 columns shows it."""
    text = io.StringIO()
    print_page(report, Console(file=text, width=80))
    return text.getvalue()


def as_role(dsn: str, role: str) -> str:
    url = to_sqlalchemy(dsn).set(username=role, password="x", drivername="postgresql")
    return str(url.render_as_string(hide_password=False))


def require_schema(report: Report) -> None:
    """The report's JSON fits its JSON Schema, whose validator takes seconds to import."""
    import jsonschema

    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(as_json(report)), schema, format_checker=jsonschema.FormatChecker())
