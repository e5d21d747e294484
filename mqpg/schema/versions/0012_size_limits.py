"""Adds limits of size: the setting max_bytes of the broker, and topic.max_bytes."""

from mqpg.schema.revision import revision_of

revision, down_revision, branch_labels, upgrade, downgrade = revision_of(__file__)
