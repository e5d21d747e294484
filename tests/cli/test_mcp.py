"""`mqpg mcp`: an agent's client, over standard input and output, sees the broker and changes nothing."""

import json
import os
import sys
from importlib.metadata import version
from typing import Any

import psycopg
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

import mqpg


def content(result: Any) -> Any:
    assert not result.is_error, result
    return [json.loads(one.text) for one in result.content]


async def test_an_agent_looks(dsn: str, db: psycopg.Connection) -> None:
    with mqpg.connect(dsn) as mq:
        mq.create_topic("orders")
        mq.subscribe("billing", "orders")
        sent = mq.send("orders", {"id": 7}, key="k")
        mq.append()
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "mqpg", "mcp"], env=os.environ | {"MQPG_DATABASE_URL": dsn}
    )
    async with Client(stdio_client(command)) as agent:
        assert agent.server_info
        assert agent.server_info.version == version("mqpg")
        tools = (await agent.list_tools()).tools
        assert sorted(one.name for one in tools) == ["find", "status", "trace", "why"]
        assert all(one.annotations and one.annotations.read_only_hint for one in tools)
        (status,) = content(await agent.call_tool("status", {}))
        assert any("no appender is at work" in one for one in status["attention"])
        assert status["groups"][0]["consumer_group"] == "billing"
        (found,) = content(await agent.call_tool("find", {"topic": "orders", "key": "k"}))
        assert (found["message_id"], found["state"]) == (sent, "appended")
        events = content(await agent.call_tool("trace", {"message_id": sent}))
        assert [one["event"] for one in events] == ["born", "appended"]
        assert events[0]["detail"]["topic"] == "orders"
        causes = content(await agent.call_tool("why", {"about": str(sent)}))
        assert causes
        wrong = await agent.call_tool("find", {"topic": "nowhere", "key": "k"})
        assert wrong.is_error
        assert "nowhere" in str(wrong.content)
