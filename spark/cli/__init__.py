"""The commands `mqpg audit` and `mqpg reconcile`."""
