"""The file system that is in memory, for what tests write.

Only a crash of the whole machine loses what was written to a file, and no test makes one. After a kill the same files
are found in memory as on a disk.
"""

import os
import shutil
from pathlib import Path

__all__ = ["MEMORY", "has_room"]

MEMORY = Path("/dev/shm")
_ROOM = 6 << 30  # bytes that are free; a server takes 100 MB to 1 GB


def has_room() -> bool:
    """Whether there is such a file system with enough room, in which programs may be run."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < _ROOM:
        return False
    found = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:")]
    return bool(found) and int(found[0].split()[1]) << 10 >= _ROOM and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
