"""The alert rules: promtool evaluates them on written series and on pages of a real broker."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mqpg.metrics.catalog import METRICS
from mqpg.status import Source
from tests.support.broker import Session
from tests.support.scraping import Samples, busy, heartbeat, page, scrape

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus-alerts.yml"
TESTS = Path(__file__).with_name("alerts.yml")
PROMTOOL = shutil.which("promtool", path=f"{ROOT / '.promtool'}{os.pathsep}{os.environ['PATH']}")
BY_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds to each series that it reads."""


def promtool(*arguments: object, text: str | None = None) -> None:
    """Run it, and require that it finds nothing wrong."""
    assert PROMTOOL is not None, "make test-deploy installs promtool"
    ended = subprocess.run([PROMTOOL, *map(str, arguments)], input=text, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def labels_of(name: str) -> set[str]:
    """The labels of a metric, as the catalog has them."""
    return set(METRICS[name.removeprefix("mqpg_").removesuffix("_total")].labels)


def test_the_catalog_has_the_labels(mq: Session, source: Source) -> None:
    busy(mq)
    samples: Samples = {name: found for name, found in scrape(source).items() if not name.endswith("_created")}
    wrong = {name for name, found in samples.items() if any(set(one) != labels_of(name) for one, _ in found)}
    assert wrong == set()
    assert sum(bool(found) for found in samples.values()) > 30


def test_each_alert_is_tested_both_ways_on_series_that_exist() -> None:
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    moments = [one for test in tests for one in test["alert_rule_test"]]
    fires = {one["alertname"] for one in moments if one.get("exp_alerts")}
    does_not = {one["alertname"] for one in moments if not one.get("exp_alerts")}
    assert fires == does_not == {rule["alert"] for rule in rules}
    for series in (one["series"] for test in tests for one in test["input_series"]):
        name, _, labels = series.partition("{")
        assert set(re.findall(r"(\w+)=", labels)) - BY_PROMETHEUS == labels_of(name), series


@pytest.mark.deploy
def test_the_rules_fire_as_they_should() -> None:
    promtool("check", "rules", RULES)
    promtool("test", "rules", TESTS)


@pytest.mark.deploy
@pytest.mark.parametrize(
    ("is_busy", "alerts"), [(False, []), (True, ["MqpgDeadLetters", "MqpgGroupPaused", "MqpgNoKeeper"])]
)
def test_alerts_of_a_real_broker(mq: Session, source: Source, tmp_path: Path, is_busy: bool, alerts: list[str]) -> None:
    """Two hours in which every scrape finds the same."""
    if is_busy:
        busy(mq)
    else:
        for role in ("appender", "compensator", "keeper"):
            heartbeat(mq, role)
    text = page(source)
    promtool("check", "metrics", text=text)
    samples = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    firing: dict[str, Any] = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": "2h",
        "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts],
    }
    made = {
        "rule_files": [str(RULES)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": f"{value}+0x120"} for name, value in samples],
                "promql_expr_test": [firing],
            }
        ],
    }
    file = tmp_path / "page.yml"
    file.write_text(yaml.safe_dump(made))
    promtool("test", "rules", file)
