"""Values of configs that a pattern could match in very many ways."""

from pathlib import Path
from typing import Final

from protocol.error_codes import ErrorCode
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.hostile.siege.attacker import frame, read
from tests.hostile.siege.siege import besieged

GROUP: Final = 32
RESOURCES: Final = 50
TAGS: Final = "streams.rack.aware.assignment.tags"
BLANKS: Final = "a" + " " * 32_000 + "b"
LATEST_MS: Final = 250


async def test_long_values_of_many_groups(tmp_path: Path) -> None:
    resources = [
        AlterConfigsResource(
            resource_type=GROUP,
            resource_name=f"group-{number}",
            configs=[AlterableConfig(name=TAGS, config_operation=0, value=BLANKS)],
        )
        for number in range(RESOURCES)
    ]
    asked = frame(IncrementalAlterConfigsRequest(resources=resources, validate_only=True), 1)
    async with besieged(tmp_path) as siege:
        await siege.begin()
        hostile = await siege.attacker.connect()
        await hostile.send(asked)
        answered = read(IncrementalAlterConfigsResponse, 1, await hostile.answer())
        assert [each.error_code for each in answered.responses] == [ErrorCode.NONE] * RESOURCES
        toll = await siege.toll()
        assert toll.is_bearable(LATEST_MS), toll
