"""The consumers of the shop that is broken on purpose."""

import os
from collections.abc import Sequence
from pathlib import Path

import psycopg
from sqlalchemy import Connection, create_engine

import mqpg

engine = create_engine(f"sqlite:///{Path(os.environ['SHOP_FOLDER']) / 'stock.db'}")


@mqpg.consumer("deliveries", group="stock", database=engine, batch=True, consumer=os.environ.get("STOCK_CONSUMER"))
def stock(messages: Sequence[mqpg.Message], conn: Connection) -> None:
    """C2: its offset is in its own database."""


@mqpg.consumer("payments", group="receipts")
def receipts(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """Its subscription has a filter with a typing error."""


@mqpg.consumer("orders", group="billing")
def billing(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """One message makes it fail each time."""
    if message.payload.get("amount") == "free":
        raise ValueError("amount is not a number: 'free'")
