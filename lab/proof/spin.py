"""Runs SPIN on one case: translates, compiles and searches.

A counterexample is lines of the form `who ->> whom: what`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from .cases import Case

__all__ = ["MODEL", "Result", "check"]

MODEL = Path(__file__).parent / "half_message.pml"

_DEPTH = "1000000"
_MEMORY = "6000"  # MiB; "all" takes about 400
_STATES = re.compile(r"^\s*([\d.e+]+) states, stored(?: \(([\d.e+]+) visited\))?", re.MULTILINE)
_ERRORS = re.compile(r"errors: (\d+)")
_UNREACHED = re.compile(r"half_message\.pml:(\d+), state")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one case.

    Attributes:
        problem: Why the result is not the expected one; empty if it is.
    """

    case: Case
    states: int
    seconds: float
    problem: str
    trail: list[str] = field(default_factory=list)


def check(case: Case) -> Result:
    """Run one case in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="mqpg-prove-") as name:
        folder = Path(name)
        shutil.copy(MODEL, folder)
        _call(folder, "spin", *case.macros, "-a", MODEL.name)
        _call(folder, "gcc", "-O2", "-w", *_compiler(case), "-o", "pan", "pan.c")
        begun = time.monotonic()
        said = _call(folder, "./pan", f"-m{_DEPTH}", *(("-a", "-f") if case.claim else ()))
        seconds = time.monotonic() - begun
        errors = _ERRORS.search(said)
        found = int(errors[1]) if errors else -1
        trail = _trail(folder, case) if found > 0 else []
    return Result(case, _states(said), seconds, _problem(case, said, found), trail)


def _compiler(case: Case) -> list[str]:
    if case.claim:
        return ["-DCOLLAPSE", "-DNFAIR=5", f"-DMEMLIM={_MEMORY}"]
    if case.fails:  # breadth first, which finds the shortest counterexample
        return ["-DSAFETY", "-DBFS", f"-DMEMLIM={_MEMORY}"]
    return ["-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={_MEMORY}"]


def _call(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode and command[0] != "./pan":
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


def _states(said: str) -> int:
    stored = _STATES.search(said)
    return int(float(stored[2] or stored[1])) if stored else 0


def _problem(case: Case, said: str, found: int) -> str:
    """Why the result is not the expected one, or an empty text.

    An incomplete search proves nothing.
    """
    if found < 0:
        return f"the search ended early:\n{said}"
    if case.fails:
        return "" if found else "no counterexample: the assertions miss the fault, or the rule is not needed"
    if found:
        return "it does not hold"
    if "Search not completed" in said or "max search depth too small" in said:
        return f"the search was not exhaustive:\n{said}"
    if not case.claim and case.name.startswith("all") and (missed := _unreached(said)):
        return f"steps that never happen: {missed}"
    return ""


def _unreached(said: str) -> list[str]:
    """Lines of the model that print a step and were never reached."""
    lines = MODEL.read_text().splitlines()
    missed = sorted({int(number) for number in _UNREACHED.findall(said.partition("unreached in")[2])})
    return [f"line {number}: {lines[number - 1].strip()}" for number in missed if "printf(" in lines[number - 1]]


def _trail(folder: Path, case: Case) -> list[str]:
    said = _call(folder, "spin", *case.macros, "-t", "-T", "-B", MODEL.name)
    lines = [line.strip() for line in said.splitlines()]
    return [line for line in lines if re.match(r"^[\w ]+ (?:->>|--x) [\w ]+: ", line) or "START OF CYCLE" in line]
