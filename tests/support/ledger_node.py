"""A producer node with a ledger of its own: `python -m tests.support.ledger_node DSN URL GROUP NUMBER STEP WHEN`.

It sells once and dies by SIGKILL before or after a step of the transaction. Without a step it ends by itself.
"""

import sys

from sqlalchemy import create_engine, text

import mqpg
from tests.support.killing import die_at


def main(dsn: str, url: str, group: str, number: str, step: str = "", when: str = "") -> None:
    if step:
        die_at(f"mqpg._sync.producer.transactional:{step}", when)
    with mqpg.connect(dsn) as mq:
        producer = mqpg.TransactionalProducer(mq, group=group, ledger=create_engine(url))
        with producer.transaction(group, {"id": int(number)}) as tx:
            tx.execute(text("insert into sale values (:id)"), {"id": int(number)})
        producer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
