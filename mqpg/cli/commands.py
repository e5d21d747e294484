"""The commands of `mqpg --help`: in which group each stands, where it is, and what it does.

A command is loaded when it is used, so what it does stands here, too: the first paragraph of its help.
"""

from __future__ import annotations

__all__ = ["COMMANDS"]

COMMANDS: dict[str, dict[str, tuple[str | None, str]]] = {
    "Run": {
        "up": ("server:up", "Start the embedded PostgreSQL and the workers in the background. Prints the DSN."),
        "down": ("server:down", "Stop the workers and the server of `mqpg up`. The data stay on disk."),
        "web": (None, "Show the dashboard in a browser, until Ctrl-C."),
        "send": ("messages:send", "Send one message, and print its id."),
        "worker": (None, "Run appender, compensator and keeper until SIGTERM."),
        "consume": (None, "Run a consumer, or all of a module in one process, until SIGTERM."),
    },
    "Look": {
        "why": ("why:why", "Say what holds a message, a half message or a group up, and what would move it."),
        "find": ("find:find", "Find messages by key, also undecided, delayed and not yet appended ones."),
        "peek": (
            "messages:peek",
            "Print the oldest messages of a topic, or those from an offset on. Consumers do not notice.",
        ),
        "tail": (
            "messages:tail",
            "Print the newest messages of a topic, one on each line. Consumers do not notice.",
        ),
        "trace": ("find:trace", "Show the key and the payload of a message, and list its events."),
        "status": (
            "status:status",
            "Show workers, lags, half messages, dead letters and what is held up, and what to do about it.",
        ),
        "mcp": (
            "mcp:mcp",
            "Answer agents by MCP on standard input and output: status, why, find and trace. Changes nothing.",
        ),
        "doctor": (
            "doctor:doctor",
            "Look for what is wrong: settings, schema, clock, locks, old transactions, workers, Java.",
        ),
        "rights": ("rights:rights", "List who may do what. Superusers and the owner of the schema are not listed."),
    },
    "Mend": {
        "half": ("half:app", "List and decide half messages that are still undecided."),
        "reconcile": (
            None,
            "Find committed local transactions whose message was not committed, and commit it (Spark).",
        ),
        "dead-letters": ("dead_letters:app", "List, redrive and discard the dead letters of a subscription."),
    },
    "Set up": {
        "topic": ("topic:app", "Create, list, alter and drop topics."),
        "group": ("group:app", "Create, list, alter and drop producer groups."),
        "grant": ("rights:grant", "Give a role of PostgreSQL a right."),
        "revoke": ("rights:revoke", "Take a right from a role, in the words it was granted."),
        "ledger": ("ledger:app", "Create and purge ledgers in the databases of producers."),
        "asyncapi": (
            "asyncapi:asyncapi",
            "Print an AsyncAPI document: topics, and the consumers of modules with the types of their payloads.",
        ),
        "tables": ("tables:app", "Print the tables that mqpg has in your databases."),
        "migrate": ("migrate:app", "Install or upgrade the schema. Without a command: up."),
        "settings": (
            "broker_settings:settings",
            "List the settings of the broker. The owner of the schema and auditors may.",
        ),
        "subscription": ("subscription:app", "Manage subscriptions: which consumer group reads which topic."),
        "uninstall": (
            "uninstall:uninstall",
            "Drop the schemas mqpg and mqpg_audit with all messages, and what mqpg made in pgmq.",
        ),
    },
    "Prove": {
        "audit": (None, "Prove from the tables of all databases what happened to every message (Spark or SQL)."),
        "crashtest": (
            None,
            "Kill your handler or producer before and after every statement, and look what came of it.",
        ),
    },
}
"""Group -> name -> the module of mqpg.cli and what is in it (None: an entry point names it), and its help."""
