"""Payloads: JSON documents of about 227 bytes, and their PostgreSQL binary forms.

Arrays are encoded once, before the clock starts. As a consequence, the benchmark measures the queue
and not Python's encoder.
"""

from __future__ import annotations

import json
import random
import struct

__all__ = ["JSON_OID", "JSONB_OID", "TEXT_OID", "array", "documents", "jsonb"]

TEXT_OID = 25
JSON_OID = 114
JSONB_OID = 3802

_AIRPORTS = ("EWR", "JFK", "LGA", "ORD", "ATL", "LAX", "BOS", "MIA", "SFO", "DEN")
_CARRIERS = ("UA", "AA", "B6", "DL", "EV", "MQ", "US", "9E", "WN", "VX")


def documents(count: int, seed: int = 1) -> list[bytes]:
    """Make `count` different JSON documents in UTF-8, of 227 bytes on average.

    Equal seeds give equal ones.
    """
    rng = random.Random(seed)
    return [_document(rng).encode() for _ in range(count)]


def _document(rng: random.Random) -> str:
    origin, destination = rng.sample(_AIRPORTS, 2)
    return json.dumps(
        {
            "flight_id": rng.randrange(10**9),
            "carrier": rng.choice(_CARRIERS),
            "flight": rng.randrange(1, 6000),
            "tail_number": f"N{rng.randrange(100, 999)}{rng.choice(_CARRIERS)}",
            "origin": origin,
            "destination": destination,
            "departed_at": f"2013-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
            f"T{rng.randrange(24):02d}:{rng.randrange(60):02d}:00-05:00",
            "delay_minutes": rng.randrange(-20, 300),
            "distance": rng.randrange(80, 4983),
            "reference": f"{rng.getrandbits(24):06x}",
        }
    )


def jsonb(document: bytes) -> bytes:
    """Encode a document in the binary form of type jsonb: a version byte and text."""
    return b"\x01" + document


def array(elements: list[bytes], element_oid: int) -> bytes:
    """Encode a one-dimensional array without nulls in its binary form."""
    head = struct.pack("!iiIii", 1, 0, element_oid, len(elements), 1)
    return head + b"".join(struct.pack("!i", len(e)) + e for e in elements)
