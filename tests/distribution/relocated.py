"""The package `groupd` as the wheel has it, kept up to date below `.cache`: no test waits for a build."""

import compileall
import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from groupd import relocation

REPOSITORY: Final = Path(__file__).parents[2]


@cache
def relocated_root() -> Path:
    """A directory for the search path that holds the relocated package `groupd`, compiled, and nothing else."""
    rules = hashlib.sha256(Path(relocation.__file__).read_bytes()).hexdigest()[:16]
    root = REPOSITORY / ".cache" / "relocated" / rules
    shipped = relocation.shipped_files(REPOSITORY)
    for name, source in shipped.items():
        target = root / "groupd" / name
        modified_ns = source.stat().st_mtime_ns
        if not target.exists() or target.stat().st_mtime_ns != modified_ns:
            body = source.read_bytes()
            relocated = relocation.relocate(body, str(source)) if source.suffix == ".py" else body
            _replace(target, relocated, modified_ns)
    for path in relocation.files_below(root / "groupd"):
        if path.relative_to(root / "groupd").as_posix() not in shipped:
            path.unlink(missing_ok=True)
    compileall.compile_dir(root, quiet=1)
    return root


def _replace(target: Path, body: bytes, modified_ns: int) -> None:
    # Processes of one test run may do this at the same time. None of them sees a hidden file.
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".", delete=False) as file:
        file.write(body)
    os.utime(file.name, ns=(modified_ns, modified_ns))
    os.chmod(file.name, 0o644)
    os.replace(file.name, target)
