"""Adds a limit of undecided half messages, and where the ledgers of a producer group are."""

from mqpg.schema.revision import revision_of

revision, down_revision, branch_labels, upgrade, downgrade = revision_of(__file__)
