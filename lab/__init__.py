"""How mqpg is tested by its own developers: demo, chaos, benchmarks and long runs. It is in no wheel."""
