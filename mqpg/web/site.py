"""What all pages of one dashboard share."""

from __future__ import annotations

from dataclasses import dataclass, field

from jinja2 import Environment

from mqpg.status import Source

from .rendering import environment
from .reports import Reports
from .security import Security
from .streams import Streams
from .view import View

__all__ = ["Site"]


@dataclass
class Site:
    """One dashboard.

    Attributes:
        view: The broker as the DSN's role sees it.
        security: The login.
        actions: Whether those who have logged in may change something.
        reports: The pages of audits. None: it shows none.
        streams: The open streams of the overview. None: it has none, and the overview asks.
        templates: The templates.
    """

    view: View
    security: Security
    actions: bool
    reports: Reports | None = None
    streams: Streams | None = None
    templates: Environment = field(default_factory=environment)

    @property
    def source(self) -> Source:
        """The connections of the DSN's role."""
        return self.view.source
