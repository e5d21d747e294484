"""A Django project in a folder: PostgreSQL with the broker, SQLite beside it, and an app of its own."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from tests.support.forking import run_forked

SETTINGS = """
INSTALLED_APPS = ["mqpg.contrib.django", "shop"]
DATABASES = {databases!r}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
SECRET_KEY = "of a test"
MQPG = {mqpg!r}
"""
MODELS = """
from django.db import models

class Order(models.Model):
    amount = models.IntegerField()
"""
# The migrations of the app need the broker, so they come after it.
CREATE_TOPIC = """
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("mqpg", "0001_initial"), ("shop", "0001_initial")]
    operations = [
        migrations.RunSQL(
            "select mqpg.create_topic('orders', queues => 2); select mqpg.subscribe('billing', 'orders')",
            "select mqpg.unsubscribe('billing', 'orders'); select mqpg.drop_topic('orders')",
        )
    ]
"""


@dataclass
class DjangoProject:
    """The folder, and the broker's database."""

    folder: Path
    dsn: str

    def __post_init__(self) -> None:
        shop = self.folder / "shop"
        (shop / "migrations").mkdir(parents=True)
        for package in (shop, shop / "migrations"):
            (package / "__init__.py").touch()
        (shop / "models.py").write_text(MODELS)
        self.settings(default=["broker", "outbox"], ledgers=["ledger"])

    def settings(self, **mqpg: Any) -> None:
        """Say what mqpg has in which database."""
        found = conninfo_to_dict(self.dsn)
        default = {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": found["host"],
            "PORT": found["port"],
            "NAME": found["dbname"],
            "USER": found["user"],
            "PASSWORD": found.get("password", ""),
        }
        ledgers = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(self.folder / "ledgers.db")}
        text = SETTINGS.format(databases={"default": default, "ledgers": ledgers}, mqpg=mqpg)
        (self.folder / "settings.py").write_text(text)

    def fails(self, *arguments: str) -> str:
        """What `manage.py …` writes when it fails."""
        done = self._run(*arguments)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def manage(self, *arguments: str) -> str:
        """What `manage.py …` prints."""
        done = self._run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        root = str(Path(__file__).parents[2])
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MQPG_", "PG"))}
        environment = kept | {"PYTHONPATH": f"{self.folder}:{root}", "DJANGO_SETTINGS_MODULE": "settings"}
        given = [str(self.folder), *arguments]
        return run_forked(
            given, function="tests.support.django_command:main", cwd=self.folder, env=environment, timeout=150
        )
