"""The list of all faults. Each of these modules registers its own when it is imported."""

from tests.audit import conservation_faults as _conservation  # noqa: F401
from tests.audit import content_faults as _contents  # noqa: F401
from tests.audit import contradiction_faults as _contradictions  # noqa: F401
from tests.audit import cursor_faults as _cursors  # noqa: F401
from tests.audit import excuse_faults as _excuses  # noqa: F401
from tests.audit import faults as _faults  # noqa: F401
from tests.audit import outbox_faults as _outboxes  # noqa: F401
from tests.audit import record_faults as _records  # noqa: F401
from tests.audit import reference_faults as _references  # noqa: F401
from tests.audit import restore_faults as _restores  # noqa: F401
from tests.audit import witness_faults as _witnesses  # noqa: F401
from tests.audit.planting import FAULTS, Fault

__all__ = ["FAULTS", "Fault"]
