"""The report of an audit as one HTML page, which needs no other file and no script.

from mqpg.audit.html import as_html
Path("audit.html").write_text(as_html(report))
"""

from .page import as_html

__all__ = ["as_html"]
