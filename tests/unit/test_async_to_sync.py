"""The synchronous library is what the generator makes of the asynchronous one; `make lint` compares them."""

import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_check_notices_a_changed_file_and_one_too_many(tmp_path: Path) -> None:
    spec = spec_from_file_location("async_to_sync", ROOT / "tools" / "async_to_sync.py")
    assert spec is not None
    assert spec.loader is not None
    tool = module_from_spec(spec)
    spec.loader.exec_module(tool)
    for name, folder in (("SOURCE", "_async"), ("TARGET", "_sync")):
        (tmp_path / folder / "client").mkdir(parents=True)
        shutil.copy(ROOT / "mqpg" / folder / "client" / "trace.py", tmp_path / folder / "client")
        vars(tool)[name] = tmp_path / folder
    assert tool.main(["--check"]) == 0
    trace = tool.TARGET / "client" / "trace.py"
    generated = trace.read_text()
    trace.write_text(generated + "\n# changed by hand\n")
    assert tool.main(["--check"]) == 1
    trace.write_text(generated)
    (tool.TARGET / "client" / "old.py").write_text("# its source is gone\n")
    assert tool.main(["--check"]) == 1


def test_nothing_asynchronous_is_left() -> None:
    for path in (ROOT / "mqpg" / "_sync").rglob("*.py"):
        text = path.read_text()
        assert "async def" not in text
        assert "await " not in text, path
