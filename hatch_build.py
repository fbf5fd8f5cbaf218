"""Build of the wheel, with the repository's packages below `groupd`; see docs/adr/0024-one-import-name.md."""

import runpy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RelocationHook(BuildHookInterface[BuilderConfig]):
    """Adds the relocated package to the wheel. An editable one holds the path of `distribution/` alone."""

    _directory: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        repository = Path(self.root)
        relocation = runpy.run_path(str(repository / "distribution/groupd/relocation.py"))
        self._directory = TemporaryDirectory(prefix="groupd-wheel-")
        relocation["write_relocated"](repository, Path(self._directory.name))
        build_data["force_include"][self._directory.name] = "groupd"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._directory is not None:
            self._directory.cleanup()
