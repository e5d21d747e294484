"""Commands in this process."""

from __future__ import annotations

import sys

import pytest

from mqpg.cli import main
from tests.support.in_process import Run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], dsn: str) -> Run:
    """`run("topic", "list")` on this test's broker: exit status, stdout, stderr."""
    monkeypatch.setenv("MQPG_DATABASE_URL", dsn)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mqpg", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call
