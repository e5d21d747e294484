"""Junk for every command of `mqpg`: an exit status and, where it fails, no traceback."""

from __future__ import annotations

import contextlib
import io
import logging
import random
import sys
from typing import Any
from unittest import mock

import typer

from lab.fuzz.values import GROUPS, TOPICS, Report, numbers
from mqpg import cli

__all__ = ["CommandFuzzer"]

# They start servers or processes, run for ever or need Spark.
_LEFT_OUT = {"up", "down", "worker", "consume", "demo", "bench", "audit", "reconcile"}
# Some commands go on until Ctrl-C. These options make them end, because the last of two equal
# options counts.
_ENDING: dict[tuple[str, ...], list[str]] = {("status",): ["--count", "1"]}
_NEVER_GIVEN = {"dsn", "follow"}
JUNK = [
    "", " ", "x", "-", "--", "--nope", "\udcff", "a\udc80b", "é", "\u202e", "x" * 5000, "0", "-1", "1.5", "nan", "inf",
    "1" * 5000, "9" * 30, "'", '"', "\\", "\n", "[red]x[/red]", "[/]", "%s", "{}", "$.a > 0", "$.a >", "@/no/such/file",
    "/dev/null", "/", "30 s", "2020-01-01", "commit", "rollback", "earliest", "null", "postgresql://",
]  # fmt: skip


class CommandFuzzer:
    """Calls `mqpg.cli.main` with junk in argv, on the database of `dsn`."""

    def __init__(self, dsn: str, seed: int) -> None:
        self.dsn, self.rng = dsn, random.Random(seed)
        self.report = Report()
        root: Any = typer.main.get_command(cli.app)
        self.commands = sorted(_leaves(root, ()), key=lambda found: found[0])

    def run(self, calls: int, minutes: float | None = None) -> Report:
        """Call commands that many times, and return what came of them. After `minutes` it ends."""
        for _ in numbers(calls, minutes):
            self._one()
        return self.report

    def _one(self) -> None:
        words, parameters = self.rng.choice(self.commands)
        argv = list(words)
        for parameter in parameters:
            options = [one for one in parameter.opts if one.startswith("--") and one != "--help"]
            if options and parameter.name not in _NEVER_GIVEN and self.rng.random() < 0.3:
                argv += [options[0]] if parameter.is_flag else [options[0], self._value(parameter.name)]
            elif not options and self.rng.random() < 0.95:
                argv.append(self._value(parameter.name))
        if self.rng.random() < 0.1:
            argv.append(self.rng.choice(JUNK))
        argv += _ENDING.get(words, [])
        status, said = _called([*argv, "--dsn", self.dsn] if self.rng.random() < 0.9 else argv)
        self.report.calls += 1
        self.report.called[" ".join(words)] += 1
        self.report.outcomes[status] += 1
        if status not in ("0", "1", "2", "3") or "Traceback" in said:
            self.report.faults[f"{' '.join(words)} {status}"].append(f"{argv} {said[:300]}")

    def _value(self, name: str) -> str:
        rights = {"topic": TOPICS, "name": [*TOPICS, "pa"], "group": [*GROUPS[:1], "pa"], "key": ["k1"]}
        return self.rng.choice(rights[name] if name in rights and self.rng.random() < 0.6 else JUNK)


def _leaves(command: Any, words: tuple[str, ...]) -> list[tuple[tuple[str, ...], list[Any]]]:
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        return [(words, command.params)]
    return [
        leaf for name, below in subcommands.items() if name not in _LEFT_OUT for leaf in _leaves(below, (*words, name))
    ]


def _called(argv: list[str]) -> tuple[str, str]:
    """The exit status and what was written, as a process would have it."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict") for _ in range(2))
    logging.getLogger().handlers.clear()
    with (
        mock.patch.object(sys, "argv", ["mqpg", *argv]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main()
            status = "0"
        except SystemExit as end:
            status = str(0 if end.code is None else end.code)
        except BaseException as error:
            status = f"{type(error).__module__}.{type(error).__name__}: {str(error)[:150]}"
    err.flush()
    return status, err.buffer.getvalue().decode("utf-8", "replace")
