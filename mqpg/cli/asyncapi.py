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

    def add(self, topic: str, group: str | None, payload: Any) -> None:
        """Add a topic, and a group that reads it. `payload` None: any JSON."""
        channel = self._channels.setdefault(_key(topic), {"address": topic, "messages": {}})
        name = "json" if payload is None else _key(getattr(payload, "__name__", str(payload)))
        channel["messages"][name] = {"contentType": "application/json", "payload": self._schema(payload)}
        if group is not None:
            place = f"#/channels/{_key(topic)}"
            self._operations[_key(f"{group}-{topic}")] = {
                "action": "receive",
                "title": group,
                "channel": {"$ref": place},
                "messages": [{"$ref": f"{place}/messages/{name}"}],
            }

    def _schema(self, payload: Any) -> Any:
        if payload is None:
            return True
        from pydantic import TypeAdapter

        found = TypeAdapter(payload).json_schema(ref_template=_SCHEMAS)
        self._schemas |= found.pop("$defs", {})
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


def _key(name: str) -> str:
    """A name as AsyncAPI allows it for a key. The address has the topic as it is."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
