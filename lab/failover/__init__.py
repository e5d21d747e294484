"""Destroy the primary again and again and promote its standby, while workers and clients follow."""
