"""Every exception that mqpg raises. `mqpg.values.errors` has their text."""

from mqpg.values.errors import *
from mqpg.values.errors import __all__ as __all__
from mqpg.values.translation import by_sqlstate as by_sqlstate
from mqpg.values.translation import translate as translate
