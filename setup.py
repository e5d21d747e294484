"""Maps the folders of the repository to one import package, `mqpg`. Everything else is in pyproject.toml."""

import tempfile

from setuptools import find_packages, setup

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


if __name__ == "__main__":
    # Not in build/ of this folder: what an earlier build left there would get into the next wheel.
    with tempfile.TemporaryDirectory() as scratch:
        setup(packages=packages(), package_dir=FOLDERS, options={"build": {"build_base": scratch}})
