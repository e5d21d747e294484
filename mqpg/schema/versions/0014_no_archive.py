"""Drops the notes about the files that `mqpg archive` wrote."""

from mqpg.schema.revision import revision_of

revision, down_revision, branch_labels, upgrade, downgrade = revision_of(__file__)
