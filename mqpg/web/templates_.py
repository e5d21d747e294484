"""The Jinja environment of all pages that mqpg makes."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["escaping_environment"]


def escaping_environment(package: str) -> Environment:
    """Make an environment in which everything that a template prints is escaped.

    Args:
        package: The package whose folder `templates` holds the templates.

    Returns:
        The environment. A name that a template does not get is an error.
    """
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
