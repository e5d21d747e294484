"""C3: the effect is in no database (a mail, somebody's API), so a message is leased and acknowledged after it.

    MQPG_DATABASE_URL=postgresql://… python examples/consumer_external.py

In daily life the handler runs by `mqpg consume consumer_external:mail --concurrency 8`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mqpg

SENT: list[str] = []


def log(message: mqpg.Message, proceed: Callable[[], Any]) -> Any:
    """Middleware: around each call of the handler, the first one of the list outermost."""
    result = proceed()
    print(f"mailed {message.payload['to']} at attempt {message.attempt}")
    return result


@mqpg.consumer(
    "mails", group="mailer", effect="external", mode="shared", timeout=10, middleware=[log], retry_delay="10 ms"
)
def mail(message: mqpg.Message) -> None:
    """At least once: give the other side something to tell repetitions by, here the message id."""
    to = message.payload["to"]
    if "@" not in to:
        raise mqpg.Reject(f"no address: {to}")
    if to.startswith("busy") and message.attempt == 1:
        raise mqpg.Retry("mailbox busy", delay=0.05)
    SENT.append(to)


def main() -> None:
    with mqpg.connect() as mq:
        mq.create_topic("mails", queues=2)
        mail.step(mq)  # subscribes
        mq.send_batch("mails", [{"to": to} for to in ("ann@example.org", "bob", "busy@example.org")])
        while len(SENT) < 2:
            mq.append()  # what `mqpg worker` does all the time
            mail.step(mq)
        for letter in mq.dead_letters("mailer", "mails"):
            print(f"dead letter: {letter.payload['to']} because {letter.reason}")


if __name__ == "__main__":
    main()
