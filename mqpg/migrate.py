"""Installing and upgrading the schema from a program: what `mqpg.schema.migrate` has."""

from mqpg.schema.migrate import *
from mqpg.schema.migrate import __all__ as __all__
