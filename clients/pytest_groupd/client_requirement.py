"""The requirement of groupd-client. `pip install ./clients/pytest_groupd` takes it from the same clone.

Wheels and source distributions require the same version of groupd-client. If pip builds the folder of a clone, the
requirement names the neighbouring folder instead, because pip looks for a version in its index only.
"""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


def _find_client(root: str) -> Path | None:
    """Return the folder of groupd-client if pip builds a clone: pip sets the variable, other builders do not."""
    client = Path(root).parent / "groupd_client"
    return client if "PIP_BUILD_TRACKER" in os.environ and (client / "pyproject.toml").is_file() else None


class DependencyHook(MetadataHookInterface):
    """Sets the dependencies of wheels and source distributions."""

    def update(self, metadata: dict[str, Any]) -> None:
        metadata["dependencies"] = ["pytest>=8"]
        if _find_client(self.root) is None:
            metadata["dependencies"].append(f"groupd-client>={metadata['version']}")


class CloneHook(BuildHookInterface[BuilderConfig]):
    """Adds the requirement of groupd-client to a wheel that pip builds in a clone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        client = _find_client(self.root)
        if client is not None:
            # pip refuses a folder as a requirement beside an editable installation of that folder. The command
            # of an editable installation names both folders.
            place = f" @ {client.as_uri()}" if version == "standard" else f">={self.metadata.version}"
            build_data["dependencies"].append(f"groupd-client{place}")
