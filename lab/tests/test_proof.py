"""The steps of the model bear names of functions that there are, and each of its mutants is run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODEL = (ROOT / "lab" / "proof" / "half_message.pml").read_text()
STEPS = re.findall(r'printf\("([^"]*)"', MODEL)


def functions() -> set[str]:
    """Names of functions in SQL and in the Python library."""
    sql = re.findall(r"^create function mqpg\.(\w+)\(", _all("sql/functions", "*.sql"), re.MULTILINE)
    python = re.findall(r"^ *(?:async )?def (\w+)\(", _all("mqpg/_async", "*.py"), re.MULTILINE)
    return set(sql) | set(python)


def _all(folder: str, pattern: str) -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / folder).rglob(pattern)))


def test_steps_are_functions() -> None:
    called = set(re.findall(r"([%\w]+)\(", " ".join(STEPS)))
    called = (called - {"%e_batch"}) | {"commit_batch", "rollback_batch"}
    assert len(called) > 15
    assert called <= functions()


def test_every_mutant_of_the_model_is_run() -> None:
    asked = set(re.findall(r"(?:^#ifn?def |defined\()(\w+)", MODEL, re.MULTILINE))
    options = {"N", "K", "R", "HERE", "LIVE", "ADMIN", "SHOWN", "CLAIM_decided", "CLAIM_delivered"}
    run = set(re.findall(r'"([A-Z_]+)"', (ROOT / "lab" / "proof" / "cases.py").read_text()))
    assert asked - options <= run
