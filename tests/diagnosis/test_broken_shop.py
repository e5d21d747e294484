"""What is broken in a shop under load is named by `mqpg status` and `mqpg why`, with what mends it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.broken_shop import BrokenShop, broken_shop
from tests.support.in_process import Run
from tests.support.waiting import eventually

_SAID = {
    "worker missing": r"no keeper is at work.*start mqpg worker",
    "blocked segment": r"consume_queue_1 waits.*held up by pid (\d+) \(monthly report,.*select pg_terminate_backend\(\1\)",
    "ledger away": r"producer group shop has 1 half message whose check is overdue \(no verdict from the ledger shop: .*",
    "parked halves": r"producer group app has 3 parked half messages",
    "filter typo": r"group receipts of topic payments gets nothing through its filter .*has state, order, but nothing at "
    r"[$]..stat.[.].*mqpg subscription alter receipts payments --filter .*mqpg subscription seek receipts payments \d+ ",
    "poison message": r"group billing of topic orders .*queue_blocked.*Message \d+ at offset 0 of queue 1.*ValueError: "
    r"amount.*mqpg subscription seek billing orders 0 --queue 1; .*mqpg subscription seek billing orders 1 --queue 1",
    "renamed consumer": r"group stock of topic deliveries .*stock-1.*at work .*: stock-one.*"
    r"mqpg subscription unpin stock deliveries --consumer stock-1",
    "full queue": r"group mailer of topic mails .*Queue 0 is full: 64 of 64.*mailer-7 \(64\).*No mqpg consume reports.*"
    r"in 5\d min .*mqpg subscription seek mailer mails 0 --queue 0; the same holds for queue 1",
    "import job": r"pid \d+ \(\w+, import job, from [\d.:]+\) has sent messages in a transaction that is open for \d+ ",
}


@pytest.fixture
def shop(dsn: str, tmp_path: Path) -> Iterator[BrokenShop]:
    with broken_shop(dsn, tmp_path) as running:
        yield running


@pytest.mark.waits
def test_each_thing_is_named(shop: BrokenShop, run: Run) -> None:
    def said(*arguments: str) -> Any:
        return json.loads(run(*arguments, "--json")[1])

    missing = dict(_SAID)
    attention: list[str] = []

    def named() -> bool:
        attention[:] = said("status")["attention"]
        for thing, words in list(missing.items()):
            if any(re.search(words, sentence) for sentence in attention):
                del missing[thing]
        return not missing

    eventually(named, 140, 5, lambda: f"{missing} in {attention}")
    (cause,) = [one for one in said("why", str(shop.uncommitted)) if one["cause"] == "transaction_open"]
    assert cause["detail"]["application"] == "import job"
    assert not [sentence for sentence in attention if "select mqpg." in sentence]
    assert sum("monthly report" in sentence for sentence in attention) == 1
    explained = {one["found"].partition(",")[0]: one for one in said("why")}
    assert sum("import job" in one["found"] for one in explained.values()) == 1
    assert sum(found.startswith("half message") for found in explained) >= 2  # the ledger's and parked ones
    assert len(attention) <= 12, attention
