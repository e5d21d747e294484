"""JSON as columns of Arrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from mqpg.values.errors import Error

__all__ = ["parse_objects", "parse_payloads"]


def parse_objects(texts: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    """Parse JSON objects. Fields that the schema lacks are left out, and missing ones are null."""
    whole = pa.ListArray.from_arrays([0, len(texts)], texts.combine_chunks())
    lines = pc.binary_join(whole, "\n")[0].as_buffer()
    return json.read_json(
        pa.BufferReader(lines),
        json.ReadOptions(block_size=len(lines) + 1, use_threads=False),
        json.ParseOptions(explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior="ignore"),
    )


def parse_payloads(texts: pa.ChunkedArray, kind: pa.StructType) -> pa.Array:
    """Parse payloads. Raises Error if one does not fit."""
    try:
        table = parse_objects(texts, pa.schema(list(kind)))
    except pa.ArrowException as error:
        raise Error(
            f"option schema: a payload does not fit {kind}: {error}. Without the option payload is text, and "
            "from_json() makes null of what does not fit"
        ) from error
    return pa.StructArray.from_arrays([column.combine_chunks() for column in table.columns], fields=list(kind))
