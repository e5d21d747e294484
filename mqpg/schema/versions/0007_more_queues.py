"""Adds what it takes to give a topic more queues while it is in use."""

from mqpg.schema.revision import revision_of

revision, down_revision, branch_labels, upgrade, downgrade = revision_of(__file__)
