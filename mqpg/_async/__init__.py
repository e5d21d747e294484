"""The library proper, asynchronous. Its synchronous twin mqpg._sync is generated from it."""
