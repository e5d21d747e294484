"""Two failovers in a row: the primary and its disk are lost, and `mqpg worker` continues by itself."""

from pathlib import Path

import pytest

from lab.failover.__main__ import run


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_nobody_notices_two_failovers(tmp_path: Path) -> None:
    """Mutations that this notices: adopt() leaves the claims; the worker does not adopt; several
    hosts are tried without target_session_attrs while the standby is up.
    """
    report = run(2, 4711, tmp_path)
    assert report["wrong"] == []
    assert report["verdict"] == "valid"
