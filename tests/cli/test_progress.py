"""What takes long says what it does, also in a pipe."""

import re
import threading

import pytest

from mqpg.cli.progress import progress
from tests.support.waiting import eventually


def test_lines_come_until_the_block_ends(capsys: pytest.CaptureFixture[str]) -> None:
    said = ""

    def lines() -> str:
        nonlocal said
        said += capsys.readouterr().err
        return said

    with progress("audit by sql", first=0.01, then=0.01) as doing:
        eventually(lambda: lines().count("\n") >= 2)
        doing("half of it")
        eventually(lambda: "half of it" in lines())
    capsys.readouterr()
    assert all(re.fullmatch(r"mqpg: (audit by sql|half of it), \d+ s", line) for line in said.splitlines())
    assert "mqpg progress" not in [one.name for one in threading.enumerate()]


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("nothing", first=600):
        pass
    assert capsys.readouterr().err == ""
