"""Adds what a delayed send reads instead of the newest tick and the last partition."""

from mqpg.schema.revision import revision_of

revision, down_revision, branch_labels, upgrade, downgrade = revision_of(__file__)
