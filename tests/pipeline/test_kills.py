"""A stream from topic to topic whose driver, task or broker is killed at each step of the sink: each message once."""

import subprocess
import sys
from pathlib import Path

import pytest

import mqpg
from mqpg.audit.options import AuditOptions
from mqpg.audit.sql.engine import run_audit
from tests.fixtures.databases import OwnServer

pytestmark = [pytest.mark.spark, pytest.mark.audits, pytest.mark.timeout(1200)]

MESSAGES = 250
SLOW = "failed to connect back"  # a Python process took longer than Spark waits for it
COPYING = Path(__file__).with_name("copying.py")


def copy(dsn: str, folder: Path, step: str, whom: str) -> bool:
    """Run the program. Returns whether it came to its end."""
    command = [sys.executable, str(COPYING), dsn, str(folder), step, whom]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    (folder / "said").write_text(done.stdout + done.stderr)
    return done.returncode == 0


@pytest.mark.parametrize(
    ("step", "whom", "ends"),
    [
        ("before write", "driver", False),
        ("after write", "driver", False),
        ("before commit", "driver", False),
        ("after commit", "driver", False),
        ("before write", "task", True),
        ("after write", "task", True),
        ("before commit", "task", False),
        ("after commit", "task", False),
        ("before write", "broker", False),
        ("before commit", "broker", False),
        ("after commit", "broker", False),
    ],
)
def test_each_message_is_copied_once(own_server: OwnServer, tmp_path: Path, step: str, whom: str, ends: bool) -> None:
    with mqpg.connect(own_server.dsn) as mq:
        mq.create_topic("orders", queues=2)
        mq.create_topic("copy", queues=2)
        mq.create_producer_group("spark")
        mq.send_batch("orders", [{"n": n} for n in range(MESSAGES)], keys=[str(n) for n in range(MESSAGES)])
        mq.append()
    (tmp_path / "broker.pid").write_text(str(own_server.server.pid))
    ended = copy(own_server.dsn, tmp_path, step, whom)
    assert (tmp_path / "struck").exists(), (tmp_path / "said").read_text()
    assert ended is ends
    if whom == "broker":
        own_server.server.stop("immediate")
        own_server.server.start()
    while not ended:
        ended = copy(own_server.dsn, tmp_path, "", "")
        said = (tmp_path / "said").read_text()
        assert ended or SLOW in said, said
    with mqpg.connect(own_server.dsn) as mq:
        mq.append()
        copies = [message.payload["n"] for queue in (0, 1) for message in mq.fetch("copy", queue, 0, 10_000)]
        assert sorted(copies) == list(range(MESSAGES))
    report = run_audit(AuditOptions(own_server.dsn))
    assert (report.verdict.value, sum(report.anomalies.values())) == ("valid", 0)
