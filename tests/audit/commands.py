"""The command `mqpg audit`, the page and the JSON that it prints, and a role to run it as."""

import io
import json
import os

from rich.console import Console

from mqpg.audit.page import print_page
from mqpg.audit.report import Report, as_json, json_schema
from mqpg.connection.dsn import to_sqlalchemy
from tests.support.forking import run_mqpg

__all__ = ["as_role", "page_of", "require_schema", "run"]


def run(*arguments: str, **more: str) -> tuple[int, str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MQPG_", "PG", "DATABASE"))}
    environment = kept | {"COLUMNS": "160"} | more
    done = run_mqpg("audit", "--local-threads", "1", *arguments, env=environment, timeout=500)
    return done.returncode, done.stdout, done.stderr


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
