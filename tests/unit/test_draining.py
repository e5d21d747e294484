"""How long `mqpg.testing.drain` waits for retries, by a clock that the test moves."""

from types import SimpleNamespace
from typing import Any

import pytest

from mqpg.testing import draining


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(at=0.0)

    def sleep(seconds: float) -> None:
        now.at += seconds

    monkeypatch.setattr(draining, "time", SimpleNamespace(monotonic=lambda: now.at, sleep=sleep))
    return now


class Broker:
    """A client and a consumer: the process stands still in one of the passes, behind append()."""

    def __init__(self, clock: SimpleNamespace, found: list[int], still: int) -> None:
        self._clock, self._found, self._still, self.passes = clock, found, still, 0

    def append(self) -> None:
        self.passes += 1
        if self.passes == self._still:
            self._clock.at += 60

    def step(self, client: Any) -> int:
        return self._found[self.passes - 1] if self.passes <= len(self._found) else 0


@pytest.mark.parametrize(("wait", "processed"), [(0.5, 2), (0.0, 1)])
def test_a_retry_that_became_due_while_the_process_stood_still_comes(
    clock: SimpleNamespace, wait: float, processed: int
) -> None:
    broker: Any = Broker(clock, [1, 0, 1], still=2)
    assert draining.drain(broker, broker, wait=wait) == processed
