"""What a program declares beside its models: topics, groups, subscriptions and rights at the broker.

`alembic revision --autogenerate` compares them with the broker, see `mqpg.alembic`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, InitVar, dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mqpg.values.choices import Checker, Mode, OnExhausted, OnExpired, OnFailure, TopicKind
from mqpg.values.errors import AlreadyDefined, ConfigurationError, shown
from mqpg.values.messages import Interval

if TYPE_CHECKING:
    from sqlalchemy import MetaData

__all__ = [
    "Declaration",
    "Grant",
    "ProducerGroup",
    "Subscription",
    "Topic",
    "declared_in",
    "defaults",
    "identity",
    "settings",
]

_INFO = "mqpg"  # the key in MetaData.info


class Declaration:
    """A thing at the broker: what the SQL function `_call` makes. `_names` are the arguments that name it."""

    _call: ClassVar[str]
    _names: ClassVar[tuple[str, ...]]

    def __post_init__(self, metadata: MetaData) -> None:
        info = getattr(metadata, "info", None)
        if not isinstance(info, dict) or not hasattr(metadata, "tables"):
            raise ConfigurationError(
                f"metadata must be a MetaData of SQLAlchemy, such as Base.metadata, not {shown(metadata)}"
            )
        others = info.setdefault(_INFO, [])
        if identity(self) in map(identity, others):
            names = ", ".join(identity(self)[1])
            raise AlreadyDefined(f"{type(self).__name__} {names} is declared twice in one MetaData")
        others.append(self)


def declared_in(metadata: MetaData) -> list[Declaration]:
    """What is declared in `metadata`, in the order of the declarations."""
    return list(metadata.info.get(_INFO, ()))


def identity(declared: Declaration) -> tuple[str, tuple[str, ...]]:
    """The SQL function that makes it, and the arguments that name it."""
    if isinstance(declared, Grant):
        return f"grant_{declared.privilege}", (*declared.on, declared.role)
    return declared._call, tuple(getattr(declared, name) for name in declared._names)


def defaults(kind: type[Declaration]) -> dict[str, Any]:
    """The settings of a declaration that leaves all of them out."""
    return {field.name: field.default for field in fields(kind) if field.name not in kind._names}  # type: ignore[arg-type]


def settings(declared: Declaration) -> dict[str, Any]:
    """Its settings, those that it leaves out among them."""
    return {name: getattr(declared, name) for name in defaults(type(declared))}


@dataclass(frozen=True)
class Topic(Declaration):
    """A topic that the migrations of a program create and change.

    It is written beside the models: `mqpg.Topic("orders", Base.metadata, queues=4)`. A setting
    that is left out has its default, at the broker, too.

    Attributes:
        topic: Its name.
        queues: How many ordered queues it has, 8 by default. The number can only become a multiple
            of itself.
        retention: How long messages stay readable; 7 days by default.
        kind: "normal", or "relay" (protocol T4). It cannot change.
        max_payload: The largest payload in bytes; 1 MiB by default.
        message_ttl: A message that no consumer of a group received within this time expires for
            that group. None, the default: never.
        on_expired: Whether an expired message counts as consumed ("skip") or becomes a dead letter.
        lose_after: How long after its segment was closed an unread message may be dropped. None,
            the default: never.
        lose_over: How many bytes of unread messages a group may keep from being dropped. None, the
            default: any number.
        checksums: Whether each new record batch gets a checksum.
        max_bytes: With about so many bytes of messages stored, sends raise NoSpace. None, the
            default: no limit.

    Raises:
        ConfigurationError: `metadata` is no MetaData.
        AlreadyDefined: The topic is declared twice.
    """

    topic: str
    metadata: InitVar[MetaData]
    _: KW_ONLY
    queues: int = 8
    retention: Interval = "7 days"
    kind: TopicKind = "normal"
    max_payload: int = 1048576
    message_ttl: Interval | None = None
    on_expired: OnExpired = "skip"
    lose_after: Interval | None = None
    lose_over: int | None = None
    checksums: bool = False
    max_bytes: int | None = None

    _names = ("topic",)
    _call = "create_topic"


@dataclass(frozen=True)
class ProducerGroup(Declaration):
    """A producer group that the migrations of a program create and change.

    It is written beside the models: `mqpg.ProducerGroup("shop", Base.metadata, checker="ledger")`.
    A setting that is left out has its default, at the broker, too.

    Attributes:
        producer_group: Its name.
        check_after: How long a half message may stay undecided before it is checked back; 60 s by
            default.
        max_checks: Checks without an answer until `on_exhausted` applies; 15 by default.
        on_exhausted: Whether the half message is then parked or rolled back.
        checker: Who answers check-backs: "due_checks" (the default), "ledger", "function" or "url".
        checker_target: The name of the SQL function, or of the ledger in the worker's
            configuration. None: for the other checkers.
        expire_after: How long a half message may stay undecided before it is rolled back; 7 days
            by default. None: for ever.
        max_undecided: How many half messages may be undecided; 100,000 by default.

    Raises:
        ConfigurationError: `metadata` is no MetaData.
        AlreadyDefined: The group is declared twice.
    """

    producer_group: str
    metadata: InitVar[MetaData]
    _: KW_ONLY
    check_after: Interval = "60 s"
    max_checks: int = 15
    on_exhausted: OnExhausted = "park"
    checker: Checker = "due_checks"
    checker_target: str | None = None
    expire_after: Interval | None = "7 days"
    max_undecided: int = 100000

    _names = ("producer_group",)
    _call = "create_producer_group"


@dataclass(frozen=True)
class Subscription(Declaration):
    """A subscription that the migrations of a program make, change and end.

    It is written beside the models: `mqpg.Subscription("billing", "orders", Base.metadata)`. A
    setting that is left out has its default, at the broker, too.

    Attributes:
        consumer_group: The group that reads.
        topic: The topic that it reads.
        mode: How consumers share queues. It can change between "exclusive" (the default) and
            "shared" only.
        start: Where a new subscription begins: "earliest" (the default), "latest" or a time. A
            subscription that exists is not moved.
        filter: A jsonpath that chooses messages. None, the default: all.
        tags: Tags that choose messages. None, the default: all.
        max_attempts: Deliveries until a message becomes a dead letter; 16 by default.
        retry_delay: The time until the second attempt; 10 s by default.
        on_failure: What a failed message holds back: "skip" (nothing, the default), "block_key" or
            "block_queue".

    Raises:
        ConfigurationError: `metadata` is no MetaData.
        AlreadyDefined: The subscription is declared twice.
    """

    consumer_group: str
    topic: str
    metadata: InitVar[MetaData]
    _: KW_ONLY
    mode: Mode = "exclusive"
    start: str | datetime = "earliest"
    filter: str | None = None
    tags: list[str] | None = None
    max_attempts: int = 16
    retry_delay: Interval = "10 s"
    on_failure: OnFailure = "skip"

    _names = ("consumer_group", "topic")
    _call = "subscribe"


@dataclass(frozen=True)
class Grant(Declaration):
    """A right that the migrations of a program grant and revoke.

    It is written beside the models: `mqpg.Grant.receive("billing", "orders", "shop_app", metadata)`.

    Attributes:
        privilege: "send", "produce" or "receive".
        on: What it is a right to, as `grant_…()` takes it: a topic, a producer group, or a
            consumer group and its topic. "*" means all.
        role: The role that gets it, exactly as it is written.

    Raises:
        ConfigurationError: `metadata` is no MetaData.
        AlreadyDefined: The right is declared twice.
    """

    privilege: Literal["send", "produce", "receive"]
    on: tuple[str, ...]
    role: str
    metadata: InitVar[MetaData]

    _names = ("privilege", "on", "role")

    @classmethod
    def send(cls, topic: str, role: str, metadata: MetaData) -> Grant:
        """Declare the right to send to a topic.

        Args:
            topic: Name of the topic; "*" for all.
            role: The role that gets it.
            metadata: The MetaData that the declaration belongs to.

        Returns:
            The declaration.
        """
        return cls("send", (topic,), role, metadata)

    @classmethod
    def produce(cls, producer_group: str, role: str, metadata: MetaData) -> Grant:
        """Declare the right to store and decide half messages of a producer group.

        Args:
            producer_group: Name of the group; "*" for all.
            role: The role that gets it.
            metadata: The MetaData that the declaration belongs to.

        Returns:
            The declaration.
        """
        return cls("produce", (producer_group,), role, metadata)

    @classmethod
    def receive(cls, consumer_group: str, topic: str, role: str, metadata: MetaData) -> Grant:
        """Declare the right to receive a topic for a consumer group.

        Args:
            consumer_group: Name of the group; "*" for all.
            topic: Name of the topic; "*" for all that the group reads.
            role: The role that gets it.
            metadata: The MetaData that the declaration belongs to.

        Returns:
            The declaration.
        """
        return cls("receive", (consumer_group, topic), role, metadata)
