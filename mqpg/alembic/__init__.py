"""mqpg in a program's own Alembic: `import mqpg.alembic` in `env.py`.

::

    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        include_name=mqpg.alembic.include_name,
        include_object=mqpg.alembic.include_object,
    )

Without these two functions autogenerate writes `drop_table` for mqpg's tables.

It adds the directives `op.mqpg_create_topic(…)`, …, and `alembic revision --autogenerate` compares
what is declared with `mqpg.Topic` and the like with the broker.
"""

from mqpg.alembic import comparing as comparing
from mqpg.alembic import directives as directives
from mqpg.alembic.filters import include_name, include_object

__all__ = ["include_name", "include_object"]
