"""Shortens segments of the log, so that message ids stay below 2^53 for 22 years instead of 5."""

from mqpg.schema.revision import revision_of

revision, down_revision, branch_labels, upgrade, downgrade = revision_of(__file__)
