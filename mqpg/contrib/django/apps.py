"""The app."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate

from mqpg.contrib.django.install import install, read_setting

__all__ = ["MqpgConfig"]


class MqpgConfig(AppConfig):
    """`mqpg.contrib.django`, under the label `mqpg`."""

    name = "mqpg.contrib.django"
    label = "mqpg"
    verbose_name = "mqpg"

    def ready(self) -> None:
        read_setting()
        post_migrate.connect(_upgrade, sender=self)


def _upgrade(*, using: str, plan: Any = None, **_: Any) -> None:
    """Bring what is installed to this release, and install what the setting names since the migration ran."""
    if plan is not None:  # None: the signal is of `flush`, which changes no schema
        install(connections[using])
