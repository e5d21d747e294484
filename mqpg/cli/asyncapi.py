"""`mqpg asyncapi`: an AsyncAPI document of an application's consumers, or of a broker's topics and groups."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn

__all__ = ["asyncapi"]

_VERSION = "3.1.0"  # of AsyncAPI
_SCHEMAS = "#/components/schemas/{model}"
_SUBSCRIPTIONS = """
select t.topic, s.consumer_group from mqpg.topics as t
left join mqpg._subscriptions(null) as s on s.topic_name = t.topic order by 1, 2
"""


def asyncapi(
    modules: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODULE[:NAME]]...", help="Consumers. Default: the topics and groups of the broker."),
    ] = None,
    title: Annotated[str, typer.Option(help="The title of the document.")] = "mqpg",
    version: Annotated[str, typer.Option(help="The version of your interface.")] = "0",
    dsn: Dsn = None,
) -> None:
    """Print an AsyncAPI document: topics, and the consumers of modules with the types of their payloads."""
    made = _Document()
    if modules:
        _add_consumers(made, modules)
    else:
        with broker(dsn) as mq:
            for one in rows(mq, _SUBSCRIPTIONS):
                made.add(one["topic"], one["consumer_group"], None)
    typer.echo(json.dumps(made.as_json(title, version), indent=2))


def _add_consumers(made: _Document, modules: Iterable[str]) -> None:
    from mqpg.application import find_consumers, payload_type

    for module in modules:
        for consumer in find_consumers(module).values():
            made.add(consumer.options.topic, consumer.options.group, payload_type(consumer))


class _Document:
    """Channels are topics, operations are consumer groups, and messages the types of payloads."""

    def __init__(self) -> None:
        self._channels: dict[str, dict[str, Any]] = {}
        self._operations: dict[str, dict[str, Any]] = {}
        self._schemas: dict[str, Any] = {}
        self._keys: dict[str, object] = {}

    def add(self, topic: str, group: str | None, payload: Any) -> None:
        """Add a topic, and a group that reads it. `payload` None: any JSON."""
        key = self._key(topic, topic)
        channel = self._channels.setdefault(key, {"address": topic, "messages": {}})
        name = self._key("json" if payload is None else _name(payload), payload, within=f"{key}/messages")
        channel["messages"][name] = {"contentType": "application/json", "payload": self._schema(name, payload)}
        if group is not None:
            operation = self._key(f"{group}-{topic}", (group, topic), within="operations")
            made = self._operations.setdefault(
                operation,
                {"action": "receive", "title": group, "channel": {"$ref": f"#/channels/{key}"}, "messages": []},
            )
            message = {"$ref": f"#/channels/{key}/messages/{name}"}
            made["messages"] += [] if message in made["messages"] else [message]

    def _key(self, name: str, of: object, within: str = "channels") -> str:
        """A name as AsyncAPI allows it for a key, and a number behind it if another thing has that key."""
        base = found = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        number = 1
        while self._keys.setdefault(f"{within}/{found}", of) != of:
            number += 1
            found = f"{base}_{number}"
        return found

    def _schema(self, name: str, payload: Any) -> Any:
        if payload is None:
            return True
        from pydantic import TypeAdapter

        prefix, adapter = "", TypeAdapter(payload)
        found = adapter.json_schema(ref_template=_SCHEMAS)
        if any(self._schemas.get(model, one) != one for model, one in found.get("$defs", {}).items()):
            # Another payload has a model of the same name.
            prefix = f"{self._key(name, payload, within='schemas')}."
            found = adapter.json_schema(ref_template=_SCHEMAS.replace("{model}", f"{prefix}{{model}}"))
        self._schemas |= {f"{prefix}{model}": one for model, one in found.pop("$defs", {}).items()}
        return found

    def as_json(self, title: str, version: str) -> dict[str, Any]:
        """The whole document."""
        return {
            "asyncapi": _VERSION,
            "info": {"title": title, "version": version},
            "defaultContentType": "application/json",
            "channels": self._channels,
            "operations": self._operations,
            "components": {"schemas": self._schemas},
        }


def _name(payload: Any) -> str:
    """The name of a type, with those of its parameters."""
    return payload.__name__ if isinstance(payload, type) else re.sub(r"\w+\.", "", str(payload))
