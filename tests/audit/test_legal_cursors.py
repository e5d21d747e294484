"""A random but legal history of cursors is valid: every mode, and every way to move a position."""

from collections.abc import Callable

import pytest

from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.legal_history import live
from tests.audit.story import Story

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_consumers_may_do_is_valid(audit: Callable[..., Report], story: Story, seed: int) -> None:
    live(story, seed)
    report = audit()
    assert (report.verdict, report.reasons) == (Verdict.VALID, ()), report.examples
