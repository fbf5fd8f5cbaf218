"""Responses of the API about violations."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.control.diagnosis.violation import OracleName
from coordinator.control.problem import Problem, ProblemKind
from coordinator.http.api.api_route import ApiCall, ApiRoute
from coordinator.http.api.diagnosis_routes import VIOLATION_ROUTES, ViolationsQuery
from protocol.error_codes import ErrorCode
from tests.control.diagnosis.watched_server import Member, Watched, generation, orders, watched

ROUTE = {route.method: route for route in VIOLATION_ROUTES}


@pytest.fixture
async def watch(tmp_path: Path) -> AsyncIterator[Watched]:
    """A double owner in one group, a zombie in another."""
    async with (
        watched(tmp_path) as watch,
        Member(watch, "alice") as alice,
        Member(watch, "bob") as bob,
        Member(watch, "eve\n", "audit") as eve,
    ):
        await generation({alice: orders(0, 1, 2, 3), bob: orders(3)})
        await watch.found(OracleName.DOUBLE_OWNER)
        await generation({eve: orders(0, 1, 2, 3)})
        await generation({eve: orders(0, 1, 2, 3)})
        eve.generation_id -= 1
        assert await eve.commit(0, 7) == ErrorCode.ILLEGAL_GENERATION
        yield watch


async def asked(watch: Watched, route: ApiRoute, **query: Any) -> tuple[Any, str]:
    """The JSON of an answer, and the text for people."""
    call = ApiCall(
        {}, None if route.query is None else msgspec.convert(query, ViolationsQuery, strict=False), None, None
    )
    answer = await route.handle(watch.control, call)
    assert isinstance(answer, route.answer)
    assert route.text is not None
    return msgspec.json.decode(msgspec.json.encode(answer)), route.text(answer)


async def test_violations_are_listed_oldest_first_and_found_by_group_oracle_and_number(
    watch: Watched,
) -> None:
    said, text = await asked(watch, ROUTE["GET"])
    first, second = said["violations"]
    assert (first["oracle"], first["level"], first["group_id"]) == ("double_owner", "error", "billing")
    assert (first["severity"], second["severity"]) == ("violation", "notice")
    assert (first["topic"], first["partition"], first["from"], first["to"]) == ("orders", 3, None, None)
    assert (second["oracle"], second["level"], second["group_id"]) == ("zombie_commit", "warning", "audit")
    assert second["to"] == {
        "offset": 7,
        "member_id": second["members"][0]["member_id"],
        "client_id": "eve\n",
        "generation_id": 1,
    }
    assert second["detail"].isprintable()
    assert first["detail"] in text
    assert len(text.splitlines()) == 4

    mark = watch.control.stream.instance
    assert (said["next"], said["mark"]) == (second["seq"], mark)
    for query in (
        {"group": "audit"},
        {"oracle": "zombie_commit"},
        {"severity": "notice"},
        {"after": str(first["seq"])},
        {"after": f"{mark}.{first['seq']}"},
    ):
        said, _ = await asked(watch, ROUTE["GET"], **query)
        assert [one["seq"] for one in said["violations"]] == [second["seq"]], query
    said, _ = await asked(watch, ROUTE["GET"], severity="violation")
    assert [one["seq"] for one in said["violations"]] == [first["seq"]]
    said, _ = await asked(watch, ROUTE["GET"], limit="1")
    assert [one["seq"] for one in said["violations"]] == [first["seq"]]
    assert said["next"] == first["seq"]
    said, _ = await asked(watch, ROUTE["GET"], after=str(second["seq"]))
    assert (said["violations"], said["next"]) == ([], second["seq"])


async def test_a_number_of_another_process_is_told_from_ones_own(watch: Watched) -> None:
    for after in ("77aa.1", "3"):
        with pytest.raises(Problem) as restarted:
            await asked(watch, ROUTE["GET"], after=after)
        assert restarted.value.kind is ProblemKind.RESTARTED
        assert restarted.value.fields == {"mark": watch.control.stream.instance, "seq": 2}
    with pytest.raises(Problem) as wrong:
        await asked(watch, ROUTE["GET"], after="first")
    assert wrong.value.kind is ProblemKind.BAD_REQUEST


@pytest.mark.parametrize(
    "query", [{"oracle": "double"}, {"severity": "error"}, {"limit": "0"}, {"grup": "g"}]
)
def test_a_query_that_means_nothing_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(query, ViolationsQuery, strict=False)


async def test_they_are_cleared_by_who_may_change_things(watch: Watched) -> None:
    assert ROUTE["DELETE"].changes
    assert await asked(watch, ROUTE["DELETE"]) == ({"cleared": 2}, "2 cleared.\n")
    said, text = await asked(watch, ROUTE["GET"])
    assert said["violations"] == []
    assert text == "No violations.\n"
