"""A scrape of a real broker: every metric is there, and its cost does not follow the log."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg.rows import dict_row

from mqpg.metrics.catalog import METRICS
from mqpg.metrics.families import families
from mqpg.metrics.reading import read_metrics
from mqpg.status import Source
from tests.support.broker import Session
from tests.support.retention import roll
from tests.support.roles import Roles
from tests.support.scraping import Samples, busy, heartbeat, scrape

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = re.compile(r"\bmqpg_[a-z_]+\b")


def value(found: Samples, name: str, **labels: str) -> float:
    (only,) = [number for have, number in found[name] if labels.items() <= have.items()]
    return float(only)


def test_a_scrape_shows_the_broker(mq: Session, source: Source) -> None:
    busy(mq)
    found = scrape(source)
    assert value(found, "mqpg_up") == 1
    assert value(found, "mqpg_half_messages", producer_group="shop", state="pending") == 1
    assert value(found, "mqpg_append_backlog") == 1
    assert 0 < value(found, "mqpg_append_lag_seconds") < 60
    assert 0 < value(found, "mqpg_decision_seconds", of="longest") < 60
    assert value(found, "mqpg_group_dead_letters", consumer_group="board") == 1
    assert value(found, "mqpg_group_lag_messages", consumer_group="other", topic="orders") == 2
    assert value(found, "mqpg_group_paused", consumer_group="other") == 1
    assert 0 <= value(found, "mqpg_group_oldest_unread_seconds", consumer_group="other") < 60
    assert value(found, "mqpg_group_consumers", consumer_group="board") == 1
    assert value(found, "mqpg_workers_alive", role="keeper") == 0
    assert value(found, "mqpg_workers_active", role="compensator") == 1
    assert value(found, "mqpg_check_backs_total", ledger="shop", verdict="commit") == 3
    assert value(found, "mqpg_ledger_answers", ledger="shop") == 1
    assert value(found, "mqpg_appended_messages_total", worker="appender-1") == 7
    assert value(found, "mqpg_append_pass_seconds", worker="appender-1") == 0.1
    assert value(found, "mqpg_consumer_raised_messages_total", topic="orders") == 1
    assert value(found, "mqpg_audit_verdict", verdict="valid") == 1
    assert value(found, "mqpg_audit_verdict", verdict="invalid") == 0
    assert value(found, "mqpg_table_partitions", table="commit_log") >= 1


def test_days_until_a_limit_of_size(mq: Session, source: Source) -> None:
    busy(mq)
    roll(mq, closes=False)
    mq.execute("update mqpg.segment set opened_at = closed_at - interval '1 day' where closed_at is not null")
    assert scrape(source)["mqpg_max_bytes_days_left"] == []
    mq.execute("update mqpg.settings set value = '1' where name = 'max_bytes'")
    assert scrape(source)["mqpg_max_bytes_days_left"] == [({"topic": ""}, 0)]


def test_a_ledger_that_nobody_serves_gives_no_verdict(mq: Session, source: Source) -> None:
    """Prometheus refuses a page that says one thing twice, so each ledger is on it once."""
    for states, answers in ((("standby",), None), (("unknown", "elsewhere"), 0), (("no verdict", "ok"), 1)):
        for n, state in enumerate(states):
            heartbeat(mq, "compensator", n, ledgers={"shop": {"state": state}})
        found = scrape(source)["mqpg_ledger_answers"]
        assert found == ([] if answers is None else [({"ledger": "shop"}, answers)])


def test_topics_of_one_name_that_were_dropped(mq: Session, source: Source, dsn: str) -> None:
    for _ in range(2):
        mq.call("create_topic", "orders", queues=1)
        with psycopg.connect(dsn) as late:
            late.execute("select mqpg.send('orders', '5'::text)")
            mq.call("drop_topic", "orders", force=True)
        mq.append()
    assert scrape(source)["mqpg_orphan_messages"] == [({"topic": "orders"}, 2)]


def test_nothing_waits_after_a_pass(mq: Session, source: Source) -> None:
    busy(mq)
    mq.append()
    found = scrape(source)
    assert value(found, "mqpg_append_backlog") == 0
    assert value(found, "mqpg_append_lag_seconds") == 0


def test_what_committed_late_waits_too(mq: Session, source: Source, dsn: str) -> None:
    """Its transaction id lies below the newest tick's snapshot."""
    busy(mq)
    with psycopg.connect(dsn) as late:
        late.execute("select mqpg.send('orders', '5'::text)")
        mq.sent("orders", "6")
        assert value(scrape(source), "mqpg_append_backlog") == 0
        late.commit()
    assert value(scrape(source), "mqpg_append_backlog") == 1


def test_the_backlog_is_counted_up_to_a_bound(mq: Session, source: Source) -> None:
    mq.call("create_topic", "orders", queues=1)
    for _ in range(3):
        mq.execute("select count(mqpg.send('orders', '1'::text)) from generate_series(1, 600)")
    assert value(scrape(source), "mqpg_append_backlog") == 1001


def named_by(what: str) -> set[str]:
    if what == "alerts":
        rules = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text())["groups"][0]["rules"]
        return {name for rule in rules for name in NAME.findall(rule["expr"])}
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    return {name for panel in panels for target in panel["targets"] for name in NAME.findall(target["expr"])}


@pytest.mark.parametrize("what", ["alerts", "dashboard"])
def test_every_metric_that_is_named_exists(mq: Session, source: Source, what: str) -> None:
    busy(mq)
    names = named_by(what)
    assert len(names) > 10
    assert names - set(scrape(source)) == set()


def test_the_dashboard_counts_each_broker_once() -> None:
    """Each copy of `mqpg worker` serves the metrics of all, and docker-compose.yml runs two."""
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"] if "mqpg_up" not in target["expr"]]
    assert len(expressions) > 15
    assert [one for one in expressions if "max without (instance) (" not in one] == []


def test_the_catalog_has_every_metric(mq: Session, source: Source) -> None:
    busy(mq)
    names = {f"mqpg_{name}_total" if one.is_counter else f"mqpg_{name}" for name, one in METRICS.items()}
    assert {name for name in scrape(source) if name in names} == names


def test_every_alert_says_what_to_do() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text())["groups"][0]["rules"]
    assert all({"summary", "description"} <= rule["annotations"].keys() for rule in rules)


def test_a_broker_that_is_away(source: Source, empty_dsn: str) -> None:
    away = Source("host=127.0.0.1 port=1 dbname=x connect_timeout=2", "test")
    assert value(scrape(away), "mqpg_up") == 0
    assert value(scrape(Source(empty_dsn, "test")), "mqpg_up") == 0
    assert value(scrape(source), "mqpg_up") == 1


def test_a_worker_role_is_enough(mq: Session, roles: Roles) -> None:
    busy(mq)
    role = roles("scraper")
    mq.call("grant_worker", role.name)
    source = Source(role.dsn, "test")
    found = scrape(source)
    source.close()
    assert value(found, "mqpg_up") == 1
    assert "mqpg_append_backlog" in found


_PAGES = """
select sum(pg_stat_get_xact_blocks_fetched(c.oid)) as pages from pg_catalog.pg_class as c
where c.relnamespace = 'mqpg'::regnamespace and c.relkind in ('r', 'i')
"""


def pages(dsn: str, meanwhile: Callable[[], object] = lambda: None) -> int:
    """Pages of mqpg's tables and indexes that one scrape reads.

    A session counts its own reads until its transaction ends, so no other session is in the number:
    no autovacuum, and no statistics that arrive late.

    Args:
        dsn: The broker.
        meanwhile: What another session does after each query of the scrape.
    """
    with psycopg.connect(dsn, row_factory=dict_row) as conn:

        def rows(query: str) -> list[dict[str, Any]]:
            found = conn.execute(query.encode()).fetchall()
            meanwhile()
            return found

        assert list(families(read_metrics(rows)))
        (counted,) = rows(_PAGES)
        return int(counted["pages"])


def test_the_cost_does_not_follow_the_log(mq: Session, dsn: str) -> None:
    mq.subscribed("orders", queues=2, group="board")
    mq.sent_batch("orders", ["1"] * 1000)
    short = pages(dsn)
    for _ in range(100):
        mq.execute("select count(mqpg.send('orders', '1'::text)) from generate_series(1, 100)")
        mq.append()
    mq.execute("vacuum analyze mqpg.commit_log")
    long = pages(dsn)
    assert short > 0
    assert long < short + 60, (short, long)


def test_what_others_read_is_no_cost_of_a_scrape(mq: Session, dsn: str) -> None:
    """Autovacuum may work on the log while the pages of a scrape are counted."""
    busy(mq)
    vacuum = "vacuum (disable_page_skipping) mqpg.commit_log"
    mq.execute(vacuum)
    assert pages(dsn, lambda: mq.execute(vacuum)) == pages(dsn)
