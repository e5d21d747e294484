"""postMessage: a callback does the business, and its result delivers or drops the message.

    MQPG_DATABASE_URL=postgresql://… python examples/post_message.py

The message is stored before the callback is called. The business is behind an API here (a payment),
so the reverse flow asks for its result until it is known.
"""

from __future__ import annotations

import time
from functools import partial

import mqpg
from mqpg.protocols import PostProducer, Result


class Payments:
    """Represents a system of another company, where some payments take a while."""

    def __init__(self) -> None:
        self.state: dict[str, Result] = {}

    def pay(self, handle: str, result: Result) -> Result:
        """Remember the payment by the message's handle."""
        self.state[handle] = result
        return result

    def look(self, half: mqpg.HalfCheck) -> Result:
        """Answer the reverse flow.

        An unknown handle is not a failure, because its callback may be about to pay.
        """
        return self.state.get(half.handle, Result.WAIT)


def main() -> None:
    payments = Payments()
    with mqpg.connect() as mq:
        mq.create_topic("paid", queues=1)
        mq.create_producer_group("cashier", check_after="0.1 s")
        mq.subscribe("shipping", "paid")
        producer = PostProducer(mq, group="cashier", check=payments.look)

        for order, result in ((1, Result.SUCCESS), (2, Result.FAILURE), (3, Result.WAIT)):
            posted = producer.post("paid", {"order": order}, partial(payments.pay, result=result))
            print(f"order {order}: {posted.result}, {posted.outcome or 'not decided yet'}")

        payments.state[posted.handle] = Result.SUCCESS  # the bank has answered
        while not producer.answer():  # producer.run_answers(stop) repeats this
            time.sleep(0.05)
        mq.append()  # `mqpg worker` does this all the time
        print(f"received: {[message.payload['order'] for message in mq.receive('shipping', 'paid')]}")


if __name__ == "__main__":
    main()
