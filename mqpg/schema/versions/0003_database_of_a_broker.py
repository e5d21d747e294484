"""Notes the database that a broker lives in, so that a copy on the same cluster is noticed."""

from mqpg.schema.revision import revision_of

revision, down_revision, branch_labels, upgrade, downgrade = revision_of(__file__)
