"""What the protocols' tests share: a business, what consumers got, processes that kill themselves at a step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

import mqpg

INSERT = text("insert into business (id) values (:id)")
_ROOT = Path(__file__).resolve().parents[2]


def business(engine: Engine) -> list[int]:
    """Ids of the business rows."""
    with engine.connect() as conn:
        return list(conn.execute(text("select id from business order by id")).scalars())


def rows(engine: Engine, table: str) -> int:
    """How many rows a table has."""
    with engine.connect() as conn:
        return int(conn.execute(text(f"select count(*) from {table}")).scalar_one())


def delivered(mq: mqpg.Client, topic: str, group: str = "readers") -> list[Any]:
    """Payloads of all that a group gets now, acknowledged."""
    mq.append()
    found = []
    while messages := mq.receive(group, topic):
        found += [message.payload for message in messages]
        mq.ack(str(messages[0].receipt))
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Poll until it holds; fails after a while."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def killed(module: str, *arguments: str) -> None:
    """Run a module until it is dead by its own SIGKILL."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=_ROOT, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def die_at(owner: Any, name: str, when: str) -> None:
    """Have this process kill itself before or after a function is called."""
    step: Callable[..., Any] = getattr(owner, name)

    def deadly(*args: Any, **kwargs: Any) -> Any:
        if when == "after":
            step(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, deadly)
