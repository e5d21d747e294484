"""The processes around the queue.

They are the appender, the compensator, the keeper, the supervisor of these three, and the runner of
consumers.
"""

from __future__ import annotations

from .appender import Appender
from .compensator import Compensator
from .keeper import Keeper
from .supervisor import Supervisor
from .worker import Options, Worker

__all__ = ["ROLES", "Appender", "Compensator", "Keeper", "Options", "Supervisor", "Worker"]

ROLES: dict[str, type[Worker]] = {worker.role: worker for worker in (Appender, Compensator, Keeper)}
