"""Stores time spans that are added to times as exact seconds, because days follow the calendar."""

from mqpg.schema.revision import revision_of

revision, down_revision, branch_labels, upgrade, downgrade = revision_of(__file__)
