"""C3: the effect is outside any database, for instance a mail or a call of another company's API.

    MQPG_DATABASE_URL=postgresql://… python examples/consumer_external.py

A message is leased, then the effect happens, then the message is acknowledged. A real application
runs the handler with `mqpg consume consumer_external:mail --concurrency 8`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mqpg

SENT: list[str] = []


def log(message: mqpg.Message, proceed: Callable[[], Any]) -> Any:
    """Report each mail that was sent.

    This is middleware. It runs around each call of the handler; the first one in the list is the
    outermost.
    """
    result = proceed()
    print(f"mailed {message.payload['to']} at attempt {message.attempt}")
    return result


@mqpg.consumer(
    "mails", group="mailer", effect="external", mode="shared", timeout=10, middleware=[log], retry_delay="10 ms"
)
def mail(message: mqpg.Message) -> None:
    """Send one mail, at least once.

    Give the receiving side a mark by which it recognizes repetitions, for instance the message id.
    """
    to = message.payload["to"]
    if "@" not in to:
        raise mqpg.Reject(f"no address: {to}")
    if to.startswith("busy") and message.attempt == 1:
        raise mqpg.Retry("mailbox busy", delay=0.05)
    SENT.append(to)


def main() -> None:
    with mqpg.connect() as mq:
        mq.create_topic("mails", queues=2)
        mail.step(mq)  # the first call creates the subscription
        mq.send_batch("mails", [{"to": to} for to in ("ann@example.org", "bob", "busy@example.org")])
        while len(SENT) < 2:
            mq.append()  # `mqpg worker` does this all the time
            mail.step(mq)
        for letter in mq.dead_letters("mailer", "mails"):
            print(f"dead letter: {letter.payload['to']} because {letter.reason}")


if __name__ == "__main__":
    main()
