"""The hot functions keep generic plans, use indexes, and are never compiled, nor is maintenance."""

from tests.support.broker import Session


def test_functions_that_do_without_sequential_scans_do_without_jit(mq: Session) -> None:
    """Before PostgreSQL 18 a plan that must scan after all costs 10^10, and would be compiled at each call."""
    settings = mq.rows(
        "select proname, proconfig from pg_proc"
        " where pronamespace = 'mqpg'::regnamespace and 'enable_seqscan=off' = any(proconfig)"
    )
    assert {"receive", "ack", "append", "_decide"} <= {name for name, _ in settings}
    assert [
        name for name, config in settings if not {"jit=off", "plan_cache_mode=force_generic_plan"} <= set(config)
    ] == []


def test_maintenance_is_not_compiled(mq: Session) -> None:
    """With LLVM, 28 segments took minutes of compiling."""
    assert mq.rows(
        "select proname from pg_proc where pronamespace = 'mqpg'::regnamespace"
        " and proname in ('keep', '_keep') and 'jit=off' = any(proconfig) order by 1"
    ) == [("_keep",), ("keep",)]  # fmt: skip
