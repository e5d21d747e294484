"""`python -W error -m django …` in a process that is forked from one that has imported Django."""

import sys
import warnings

import django.db.backends.postgresql.base
import django.db.migrations.executor
import django.forms  # noqa: F401
from django.core.management import execute_from_command_line

__all__ = ["main"]


def main(folder: str, *arguments: str) -> None:
    """Run a command in the project of that folder."""
    warnings.simplefilter("error")
    sys.path.insert(0, folder)
    sys.argv = ["manage.py", *arguments]
    execute_from_command_line(sys.argv)
