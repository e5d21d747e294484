"""The processes around the queue: appender, compensator, keeper, their supervisor, and the consumer runner."""

from __future__ import annotations

from mqpg.workers.appender import Appender
from mqpg.workers.compensator import Compensator
from mqpg.workers.keeper import Keeper
from mqpg.workers.supervisor import Supervisor
from mqpg.workers.worker import Options, Worker

__all__ = ["ROLES", "Appender", "Compensator", "Keeper", "Options", "Supervisor", "Worker"]

ROLES: dict[str, type[Worker]] = {worker.role: worker for worker in (Appender, Compensator, Keeper)}
