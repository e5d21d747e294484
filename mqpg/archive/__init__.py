"""The archive of closed segments: `mqpg archive`, and reading its files."""
