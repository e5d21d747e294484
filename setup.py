"""Maps the folders of the repository to one import package, `mqpg`. Everything else is in pyproject.toml."""

import runpy
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FOLDERS = {
    "mqpg": "mqpg",
    "mqpg.sql": "sql",
    "mqpg.workers": "workers",
    "mqpg.spark": "spark",
}


def packages() -> list[str]:
    """Every package under the folders, by its installed name."""
    return [
        name
        for package, folder in FOLDERS.items()
        for name in [package, *(f"{package}.{below}" for below in find_packages(folder))]
    ]


class BuildWithSchema(build_py):  # type: ignore[misc]  # setuptools has no types
    """Puts the assembled first migration into a wheel; an editable install assembles it whenever it is needed."""

    def run(self) -> None:
        """Build as usual, then write the migration into the build folder, never into the checkout."""
        super().run()
        if not self.editable_mode:
            sql = Path(FOLDERS["mqpg.sql"])
            schema = runpy.run_path("mqpg/_first_migration.py")
            target = Path(self.build_lib, "mqpg", "sql", schema["FIRST"])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(schema["assemble"](sql), encoding="utf-8")


if __name__ == "__main__":
    setup(packages=packages(), package_dir=FOLDERS, cmdclass={"build_py": BuildWithSchema})
