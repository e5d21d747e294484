"""Adds where each subscription began, and which offsets its consumers take with a journal."""

from mqpg.schema.revision import revision_of

revision, down_revision, branch_labels, upgrade, downgrade = revision_of(__file__)
