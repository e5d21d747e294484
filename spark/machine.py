"""What `mqpg doctor` looks for on this machine: what `mqpg audit` with Spark needs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess

from mqpg.status import Finding
from mqpg.values.errors import ConfigurationError

from .read.jdbc_jar import find_jdbc_jar

__all__ = ["check_machine"]

_LEAST_JAVA = 17


def check_machine() -> list[Finding]:
    """Look for what `mqpg audit` with Spark needs on this machine, if Spark is installed."""
    if importlib.util.find_spec("pyspark") is None:
        return [Finding("Spark", True, "not installed; mqpg audit --engine sql works without it")]
    return [Finding("Spark", True, "installed"), _java(), _jar()]


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java")
    remedy = f"install Java {_LEAST_JAVA} or newer, or set JAVA_HOME; mqpg audit --engine sql needs none"
    try:
        ran = subprocess.run([program or "java", "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return Finding("Java", False, "missing", remedy)
    line = (ran.stderr or ran.stdout).partition("\n")[0]
    digits = line.partition('"')[2].partition(".")[0]
    ok = digits.isdecimal() and int(digits) >= _LEAST_JAVA
    return Finding("Java", ok, line, None if ok else remedy)


def _jar() -> Finding:
    try:
        return Finding("JDBC jar", True, str(find_jdbc_jar()))
    except ConfigurationError as error:
        return Finding("JDBC jar", False, "none that may be used", str(error))
