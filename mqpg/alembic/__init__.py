"""mqpg in a program's own Alembic: `import mqpg.alembic` in `env.py`.

It adds the directives `op.mqpg_create_topic(…)`, …, and `alembic revision --autogenerate` compares
what is declared with `mqpg.Topic` and the like with the broker.
"""

from mqpg.alembic import comparing as comparing
from mqpg.alembic import directives as directives

__all__: list[str] = []
