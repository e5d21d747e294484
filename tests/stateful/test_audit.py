"""Random histories, which agree with the model of tests/stateful, are valid under the audit.

`make test` runs one seed, `make test-long` and MQPG_TEST_SEED others. MQPG_STATEFUL_EXAMPLES makes a
run longer.
"""

import os
import secrets
from collections.abc import Callable, Iterator

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from mqpg.audit.options import AuditOptions
from mqpg.audit.sql.engine import run_audit as run_sql_audit
from mqpg.audit.verdict import Verdict
from mqpg.spark.jobs.audit import run_audit as run_spark_audit
from tests.fixtures.databases import Databases
from tests.stateful.admin import Admin
from tests.stateful.checks import Checks
from tests.stateful.crashes import Crashes
from tests.stateful.machine import Base
from tests.stateful.model import Claim, Lane, Tx
from tests.stateful.prepared import prepared

# With this seed, a consumer acknowledged messages before one of their key that it had left pending.
_SEED = 2002

pytestmark = [pytest.mark.spark, pytest.mark.audits, pytest.mark.timeout(600)]

EXAMPLES = int(os.environ.get("MQPG_STATEFUL_EXAMPLES", "12"))
STEPS = int(os.environ.get("MQPG_STATEFUL_STEPS", "40"))


_JOURNAL = """
create table mqpg_applied (
    consumer_group varchar(127), topic varchar(127), queue_id int, queue_offset bigint, message_id bigint,
    applied_at timestamptz, broker varchar(40), subscription_id int)
"""


_APPLY = "insert into mqpg_applied values (%s, %s, %s, %s, %s, clock_timestamp(), null, %s)"


class JournallingMachine(Checks, Admin, Crashes):
    """Everything at once, and each acknowledged message has a row in the journal."""

    def _settle(
        self, who: str, receipt: str, function: str, *args: object, effect: Callable[[Tx, Claim], None]
    ) -> None:
        def journalled(tx: Tx, claim: Claim) -> None:
            held = set(claim.offsets)
            effect(tx, claim)
            if function == "ack":
                self.acknowledged(who, claim.lane, sorted(held - set(claim.offsets)))

        super()._settle(who, receipt, function, *args, effect=journalled)

    def acknowledged(self, who: str, lane: Lane, offsets: list[int]) -> None:
        rows = self.model.rows(lane)
        for offset in offsets:
            self.parties[who].execute(
                _APPLY,
                lane.sub.group, self.topic, lane.queue_id, offset, rows[offset].message_id, lane.sub.subscription_id,
            )  # fmt: skip

    def the_end(self) -> None:
        """Apply what is left. The topic remains for the audit."""
        self.finish()
        self.resume_all()
        for sub in self.model.all_subs():
            for lane in sub.lanes.values():
                self.free(sub, lane)
            named = {"consumer": sub.name or "z"} if sub.mode in ("pinned", "broadcast") else {}
            while rows := self.mq.call("receive", sub.group, self.topic, max_messages=1000, **named):
                for row in rows:
                    self.mq.execute(
                        _APPLY, sub.group, self.topic, row.queue_id, row.queue_offset, row.message_id,
                        int(row.receipt.split(".")[0]),
                    )  # fmt: skip
                self.mq.ack(rows[0].receipt)


@pytest.fixture
def dsn(databases: Databases, template: str) -> Iterator[str]:
    with databases.lent(template) as dsn:
        broker = prepared(dsn)
        broker.session().execute(_JOURNAL)
        yield dsn
        Base.disconnect()
        broker.close()


def test_random_histories_are_valid(dsn: str) -> None:
    chosen = os.environ.get("MQPG_TEST_SEED")
    seed = int(chosen) if chosen else secrets.randbits(32) if "MQPG_STATEFUL_MINUTES" in os.environ else _SEED
    print(f"MQPG_TEST_SEED={seed} MQPG_STATEFUL_EXAMPLES={EXAMPLES} MQPG_STATEFUL_STEPS={STEPS}", flush=True)
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    run_state_machine_as_test(hypothesis.seed(seed)(JournallingMachine), settings=settings)
    # The histories commit half messages of this group without a row in its ledger.
    Base.broker.session().execute("update mqpg.producer_group set checker = 'due_checks' where checker = 'ledger'")
    for run_audit in (run_sql_audit, run_spark_audit):
        report = run_audit(AuditOptions(dsn=dsn))
        judged = sum(group["applied"] for group in report.groups)
        print(f"seed {seed}: {len(report.topics)} topics, {report.run['rows']} rows, {judged} effects", flush=True)
        assert (report.verdict, report.reasons) == (Verdict.VALID, ()), report.examples
        assert judged > 0
