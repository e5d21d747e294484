# Generated from mqpg/_async/client/rights.py by tools/async_to_sync.py: change that file.
"""Rights: which role may send, produce, receive, operate, audit and run the workers."""

from __future__ import annotations

from mqpg._sync.client.connection import BaseClient
from mqpg._sync.client.execute import Caller, scalar
from mqpg.connection.statements import function, statement
from mqpg.values.messages import Right

__all__ = ["Rights"]

_TOPIC = "topic text, role text"
_GROUP = "producer_group text, role text"
_RECEIVE = "consumer_group text, topic text, role text"
_ROLE = "role text"
_RIGHTS = statement("""
    select role, privilege, topic, consumer_group, producer_group, granted_by, granted_at from mqpg.rights
    order by role, privilege, topic, consumer_group, producer_group
""")


class Rights(BaseClient):
    """Calls about rights. A name of "*" means all topics or groups, also later ones."""

    def grant_send(self, topic: str, role: str, *, conn: Caller | None = None) -> None:
        """Let a role send to a topic. A second call changes nothing.

        Args:
            topic: The topic's name, or "*".
            role: The name of the role in PostgreSQL, exactly as it is written.
            conn: The caller's transaction, which must be READ COMMITTED. None: the call commits at
                once.

        Raises:
            UnknownTopic: There is no such topic.
            InvalidArgument: There is no such role.
            NotGranted: The caller is no operator.
        """
        self._rows(function("grant_send", _TOPIC), {"topic": topic, "role": role}, conn, repeat=True)

    def revoke_send(self, topic: str, role: str, *, conn: Caller | None = None) -> bool:
        """Take back what `grant_send` gave, in the same words.

        Args:
            topic: The topic's name, or "*".
            role: The role's name.
            conn: The caller's transaction, as for `grant_send`. None: the call commits at once.

        Returns:
            Whether the role had this right.

        Raises:
            UnknownTopic: There is no such topic.
            InvalidArgument: There is no such role.
            NotGranted: The caller is no operator.
        """
        return bool(scalar(self._rows(function("revoke_send", _TOPIC), {"topic": topic, "role": role}, conn)))

    def grant_produce(self, producer_group: str, role: str, *, conn: Caller | None = None) -> None:
        """Let a role prepare and decide half messages of a producer group.

        To prepare one it also needs `grant_send` for the topic. A second call changes nothing.

        Args:
            producer_group: The group's name, or "*".
            role: The role's name.
            conn: The caller's transaction, as for `grant_send`. None: the call commits at once.

        Raises:
            UnknownProducerGroup: There is no such group.
            InvalidArgument: There is no such role.
            NotGranted: The caller is no operator.
        """
        values = {"producer_group": producer_group, "role": role}
        self._rows(function("grant_produce", _GROUP), values, conn, repeat=True)

    def revoke_produce(self, producer_group: str, role: str, *, conn: Caller | None = None) -> bool:
        """Take back what `grant_produce` gave, in the same words.

        Args:
            producer_group: The group's name, or "*".
            role: The role's name.
            conn: The caller's transaction, as for `grant_send`. None: the call commits at once.

        Returns:
            Whether the role had this right.

        Raises:
            UnknownProducerGroup: There is no such group.
            InvalidArgument: There is no such role.
            NotGranted: The caller is no operator.
        """
        values = {"producer_group": producer_group, "role": role}
        return bool(scalar(self._rows(function("revoke_produce", _GROUP), values, conn)))

    def grant_receive(self, consumer_group: str, topic: str, role: str, *, conn: Caller | None = None) -> None:
        """Let a role receive a topic for a consumer group, and find and trace its messages.

        A second call changes nothing.

        Args:
            consumer_group: The name of a group that is subscribed to the topic, or "*".
            topic: The topic's name, or "*" for all that the group reads.
            role: The role's name.
            conn: The caller's transaction, as for `grant_send`. None: the call commits at once.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to it.
            InvalidArgument: There is no such role.
            NotGranted: The caller is no operator.
        """
        values = {"consumer_group": consumer_group, "topic": topic, "role": role}
        self._rows(function("grant_receive", _RECEIVE), values, conn, repeat=True)

    def revoke_receive(self, consumer_group: str, topic: str, role: str, *, conn: Caller | None = None) -> bool:
        """Take back what `grant_receive` gave, in the same words.

        Args:
            consumer_group: The group's name, or "*".
            topic: The topic's name, or "*".
            role: The role's name.
            conn: The caller's transaction, as for `grant_send`. None: the call commits at once.

        Returns:
            Whether the role had this right.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to it.
            InvalidArgument: There is no such role.
            NotGranted: The caller is no operator.
        """
        values = {"consumer_group": consumer_group, "topic": topic, "role": role}
        return bool(scalar(self._rows(function("revoke_receive", _RECEIVE), values, conn)))

    def grant_operator(self, role: str, *, conn: Caller | None = None) -> None:
        """Let a role manage topics and groups, and grant the rights of applications.

        A second call changes nothing.

        Args:
            role: The role's name.
            conn: The caller's transaction, as for `grant_send`. None: the call commits at once.

        Raises:
            InvalidArgument: There is no such role.
            NotGranted: The caller is not the owner of the schema.
        """
        self._rows(function("grant_operator", _ROLE), {"role": role}, conn, repeat=True)

    def revoke_operator(self, role: str, *, conn: Caller | None = None) -> bool:
        """Take back what `grant_operator` gave.

        Args:
            role: The role's name.
            conn: The caller's transaction, as for `grant_send`. None: the call commits at once.

        Returns:
            Whether the role had this right.

        Raises:
            InvalidArgument: There is no such role.
            NotGranted: The caller is not the owner of the schema.
        """
        return bool(scalar(self._rows(function("revoke_operator", _ROLE), {"role": role}, conn)))

    def grant_auditor(self, role: str, *, conn: Caller | None = None) -> None:
        """Let a role read the views, and those that the audit reads.

        A second call changes nothing.

        Args:
            role: The role's name.
            conn: The caller's transaction, as for `grant_send`. None: the call commits at once.

        Raises:
            InvalidArgument: There is no such role.
            NotGranted: The caller is not the owner of the schema.
        """
        self._rows(function("grant_auditor", _ROLE), {"role": role}, conn, repeat=True)

    def revoke_auditor(self, role: str, *, conn: Caller | None = None) -> bool:
        """Take back what `grant_auditor` gave.

        Args:
            role: The role's name.
            conn: The caller's transaction, as for `grant_send`. None: the call commits at once.

        Returns:
            Whether the role had this right.

        Raises:
            InvalidArgument: There is no such role.
            NotGranted: The caller is not the owner of the schema.
        """
        return bool(scalar(self._rows(function("revoke_auditor", _ROLE), {"role": role}, conn)))

    def grant_worker(self, role: str, *, conn: Caller | None = None) -> None:
        """Let a role run the processes of `mqpg worker`.

        A second call changes nothing.

        Args:
            role: The role's name.
            conn: The caller's transaction, as for `grant_send`. None: the call commits at once.

        Raises:
            InvalidArgument: There is no such role.
            NotGranted: The caller is not the owner of the schema.
        """
        self._rows(function("grant_worker", _ROLE), {"role": role}, conn, repeat=True)

    def revoke_worker(self, role: str, *, conn: Caller | None = None) -> bool:
        """Take back what `grant_worker` gave.

        Args:
            role: The role's name.
            conn: The caller's transaction, as for `grant_send`. None: the call commits at once.

        Returns:
            Whether the role had this right.

        Raises:
            InvalidArgument: There is no such role.
            NotGranted: The caller is not the owner of the schema.
        """
        return bool(scalar(self._rows(function("revoke_worker", _ROLE), {"role": role}, conn)))

    def rights(self, *, conn: Caller | None = None) -> list[Right]:
        """List who may do what, as the view `rights` does. Superusers and the owner are not listed.

        Args:
            conn: The caller's transaction. None: a connection of the client.

        Returns:
            The rights, by role.

        Raises:
            NotGranted: The caller is neither operator nor auditor nor worker.
        """
        return [Right(*row) for row in self._rows(_RIGHTS, {}, conn, repeat=True)]
