"""Running work periodically, until a stop is asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from mqpg._async._acompat import Event, Returns, wait_for
from mqpg.values.errors import Error

__all__ = ["run_periodically"]

logger = logging.getLogger("mqpg")


async def run_periodically(
    work: Callable[[], Returns[int]],
    stop: Event,
    interval: float,
    what: str,
    *,
    fatal: tuple[type[Exception], ...] = (),
) -> None:
    """Run `work` every `interval` seconds until `stop` is set, through restarts of any database.

    While `work` returns more than 0 it runs again at once. An error is logged, with `what` for a
    name, and the loop continues. An error of a type in `fatal` ends it.
    """
    while not stop.is_set():
        try:
            while await work() and not stop.is_set():
                pass
        except fatal:
            raise
        except (Error, SQLAlchemyError) as error:
            logger.warning("%s failed and is tried again: %s", what, error)
        await wait_for(stop, interval)
