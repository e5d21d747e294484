# Generated from mqpg/_async/passes.py by tools/async_to_sync.py: change that file.
"""A loop that goes on: passes over what is open, until it is asked to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from mqpg._sync._io import Event, wait_for
from mqpg.errors import Error

__all__ = ["run_passes"]

logger = logging.getLogger("mqpg")


def run_passes(one_pass: Callable[[], Any], stop: Event, interval: float, what: str) -> None:
    """`one_pass` every `interval` seconds, at once again while it finds something, through restarts of any database."""
    while not stop.is_set():
        try:
            while one_pass() and not stop.is_set():
                pass
        except (Error, SQLAlchemyError) as error:
            logger.warning("%s failed, it goes on: %s", what, error)
        wait_for(stop, interval)
