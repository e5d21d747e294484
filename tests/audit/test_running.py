"""The audit of a running system: snapshots in the right order do not contradict each other."""

import threading
from collections.abc import Callable

from mqpg.audit.report import Report
from tests.audit.judged import require_valid
from tests.audit.story import Story, Trio
from tests.support.waiting import eventually


def _loop(trio: Trio, stop: threading.Event, errors: list[BaseException], work: Callable[[Story], object]) -> None:
    try:
        with Story.of(trio) as story:
            while not stop.is_set():
                work(story)
                stop.wait(0.02)
    except BaseException as error:  # The test reports it.
        errors.append(error)


def test_running_system_is_valid(audit: Callable[..., Report], trio: Trio) -> None:
    stop, errors = threading.Event(), list[BaseException]()
    works: list[Callable[[Story], object]] = [Story.business, Story.business, Story.append, Story.consume]
    threads = [threading.Thread(target=_loop, args=(trio, stop, errors, work)) for work in works]
    for thread in threads:
        thread.start()
    try:
        with Story.of(trio) as story:
            eventually(
                lambda: story.ledger.execute("select from mqpg_ledger offset 40").fetchone() is not None, timeout=60
            )
        report = audit()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []
    require_valid(report)
    assert report.relations[0].confirmed > 15  # It was read while it ran.
