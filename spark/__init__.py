"""The Spark audit of mqpg."""
