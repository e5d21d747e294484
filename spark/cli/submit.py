"""The command `mqpg` for spark-submit, which takes a file and not a command.

    spark-submit --master spark://… --jars postgresql.jar …/mqpg/spark/cli/submit.py audit --engine spark --dsn …

`python -c "import mqpg.spark.cli.submit as s; print(s.__file__)"` prints the path of this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python looks in a script's own folder first. The modules there belong to a package.
    sys.path = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
    from mqpg.cli import main

    main()
