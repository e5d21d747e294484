"""Payloads as structs, by a schema."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import json

from mqpg.values.errors import Error

__all__ = ["parse_payloads"]


def parse_payloads(texts: pa.ChunkedArray, kind: pa.StructType) -> pa.Array:
    """Parse JSON objects. Fields that the type lacks are left out, and missing ones are null.

    Raises:
        Error: A payload does not fit.
    """
    lines = "\n".join(texts.to_pylist()).encode()
    try:
        table = json.read_json(
            pa.BufferReader(lines),
            json.ReadOptions(block_size=len(lines) + 1, use_threads=False),
            json.ParseOptions(
                explicit_schema=pa.schema(list(kind)), newlines_in_values=True, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowException as error:
        raise Error(
            f"option schema: a payload does not fit {kind}: {error}. Without the option payload is text, and "
            "from_json() makes null of what does not fit"
        ) from error
    return pa.StructArray.from_arrays([column.combine_chunks() for column in table.columns], fields=list(kind))
