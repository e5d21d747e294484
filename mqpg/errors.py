"""Every exception that mqpg raises. `mqpg.values.errors` has their text."""

from mqpg.values.errors import *
from mqpg.values.errors import __all__ as __all__
