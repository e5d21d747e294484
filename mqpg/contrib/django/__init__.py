"""mqpg in a Django project: an app whose migrations install what mqpg needs in its databases.

::

    INSTALLED_APPS = [..., "mqpg.contrib.django"]
    MQPG = {"default": ["broker"], "shop": ["ledger"]}

It has no models, so that `makemigrations` has nothing to say about it.
"""

from __future__ import annotations

from mqpg.contrib.django.install import dsn

__all__ = ["dsn"]
