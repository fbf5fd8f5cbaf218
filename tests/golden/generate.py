"""Writes the golden data of this version: python -m tests.golden.generate [KIND ...]

Kinds: data_directory, recording, etcd, warehouse, http; all of them without one. Run it when the unreleased
version writes something new, and commit the new directory beside the old ones. The data of released versions never
change, because users of those versions have such data.
"""

import os
import sys
from collections.abc import Sequence

import coordinator
from tests.golden import (
    conversation,
    data_directory,
    etcd_keys,
    group_events,
    recording,
    warehouse,
    wire_names,
)
from tests.golden.versions import ROOT

KINDS = {
    "data_directory": data_directory.generate,
    "recording": recording.generate,
    "etcd": etcd_keys.generate,
    "warehouse": warehouse.generate,
    "http": conversation.generate,
    "group_events": group_events.generate,
    "wire_names": wire_names.generate,
}


def main(kinds: Sequence[str]) -> None:
    """Writes the data of these kinds."""
    version = coordinator.__version__
    unknown = sorted(set(kinds) - KINDS.keys())
    if unknown:
        sys.exit(f"Unknown kind {unknown[0]}: choose from {', '.join(KINDS)}.")
    os.makedirs(os.path.join(ROOT, version), exist_ok=True)
    for kind in kinds or KINDS:
        KINDS[kind](version)
        print(f"{version}: {kind} written", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
