"""How mqpg is tested by its own developers: demo, chaos, benchmarks and long runs. It is in no wheel."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["ROOT"]

ROOT = Path(__file__).resolve().parent.parent

# The processes of a rig run in folders of their own, and the lab is not installed.
_FOLDERS = os.environ.get("PYTHONPATH", "").split(os.pathsep)
if str(ROOT) not in _FOLDERS:
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*_FOLDERS, str(ROOT)]))
