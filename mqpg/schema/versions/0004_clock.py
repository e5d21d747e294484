"""Adds the broker's own time, which does not go back with the server's clock."""

from mqpg.schema.revision import revision_of

revision, down_revision, branch_labels, upgrade, downgrade = revision_of(__file__)
