"""A daemon of a cluster serves the data in the keys of each earlier version."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.golden.etcd_keys import FILE, described, load
from tests.golden.versions import VERSIONS, read_json


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_is_served_as_before(version: str, tmp_path: Path) -> None:
    document = read_json(version, FILE)
    async with AsyncExitStack() as stack:
        _, daemon = await load(tmp_path, document, stack)
        try:
            served = await described(daemon)
            for part, content in document["content"].items():
                assert served[part] == content, part
        finally:
            await daemon.server.close()
