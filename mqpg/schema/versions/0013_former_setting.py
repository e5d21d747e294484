"""Adds the settings of topics and subscriptions that were replaced. What was before is not known."""

from mqpg.schema.revision import revision_of

revision, down_revision, branch_labels, upgrade, downgrade = revision_of(__file__)
