"""The content of rules, and the refusal of rules that could never act."""

from typing import Any

import msgspec
import pytest

from coordinator.control.faults import fault_registry as faults_module
from coordinator.control.faults.fault_rule import FaultRule
from coordinator.control.problem import Problem, ProblemKind
from coordinator.http.api import fault_routes as api
from coordinator.http.api.api_route import ApiCall, ApiRoute
from tests.control.faults.lab import Lab

HOLD = {"at": "request", "hold": True}


@pytest.mark.parametrize(
    ("rule", "kind", "says"),
    [
        ({"do": {"at": "request", "error": "NO_SUCH"}}, ProblemKind.BAD_REQUEST, "NO_SUCH"),
        (
            {"do": {"at": "request", "error": "REBALANCE_IN_PROGRES"}},
            ProblemKind.BAD_REQUEST,
            "did you mean REBALANCE_IN_PROGRESS?",
        ),
        ({"do": {"at": "request", "error": 4711}}, ProblemKind.BAD_REQUEST, "4711"),
        ({"match": {"api": "Synchgroup"}, "do": HOLD}, ProblemKind.BAD_REQUEST, "did you mean SyncGroup?"),
        (
            {"match": {"api": ["JoinGroup", "SyncGruop"]}, "do": HOLD},
            ProblemKind.BAD_REQUEST,
            "did you mean SyncGroup?",
        ),
        (
            {"match": {"error": ["NOT_COORDINATOR", "NOT_LEADER"]}, "do": {"at": "answer", "hold": True}},
            ProblemKind.BAD_REQUEST,
            "did you mean NOT_LEADER_OR_FOLLOWER?",
        ),
        ({"match": {"state": "Stabel"}, "do": HOLD}, ProblemKind.BAD_REQUEST, "did you mean Stable?"),
        (
            {"on": {"event": "GroupStabilised"}, "do": {"failover": True}},
            ProblemKind.BAD_REQUEST,
            "did you mean GroupStabilized?",
        ),
        ({"use": "not-cordinator"}, ProblemKind.BAD_REQUEST, "did you mean not-coordinator?"),
        ({"on": {"event": []}, "do": {"failover": True}}, ProblemKind.BAD_REQUEST, "event"),
        ({"do": {"at": "request"}}, ProblemKind.BAD_REQUEST, "nothing"),
        ({"do": {"at": "request", "hold": True, "drop": True}}, ProblemKind.BAD_REQUEST, "hold, drop"),
        ({"do": {"hold": True}}, ProblemKind.BAD_REQUEST, "point"),
        ({"match": {"api": "JoinGroop"}, "do": HOLD}, ProblemKind.BAD_REQUEST, "JoinGroop"),
        ({"match": {"generation": "many"}, "do": HOLD}, ProblemKind.BAD_REQUEST, "many"),
        ({"match": {"error": "NOPE"}, "do": {"at": "answer", "hold": True}}, ProblemKind.BAD_REQUEST, "NOPE"),
        ({"use": "nobody"}, ProblemKind.BAD_REQUEST, "not-coordinator"),
        ({"name": "a b", "do": HOLD}, ProblemKind.BAD_REQUEST, "letters"),
        ({"times": 0, "do": HOLD}, ProblemKind.BAD_REQUEST, "times"),
        ({"skip": -1, "do": HOLD}, ProblemKind.BAD_REQUEST, "skip"),
        ({"probability": 0, "do": HOLD}, ProblemKind.BAD_REQUEST, "probability"),
        ({"for": "soon", "do": HOLD}, ProblemKind.BAD_REQUEST, "soon"),
        ({"do": {"at": "request", "delay": "20m"}}, ProblemKind.BAD_REQUEST, "10 minutes"),
        ({}, ProblemKind.BAD_REQUEST, "action"),
        ({"on": {"event": "Nothing"}, "do": {"failover": True}}, ProblemKind.BAD_REQUEST, "Nothing"),
        (
            {"on": {"event": "MemberLeft"}, "match": {}, "do": HOLD},
            ProblemKind.BAD_REQUEST,
            "exclude each other",
        ),
        ({"on": {"event": "MemberLeft"}, "do": HOLD}, ProblemKind.BAD_REQUEST, "goes with"),
        (
            {"match": {"api": "Fetch"}, "do": {"at": "request", "error": "NONE"}},
            ProblemKind.NOT_POSSIBLE,
            "Fetch",
        ),
        (
            {"match": {"api": "JoinGroup"}, "do": {"at": "request", "error": "NONE"}},
            ProblemKind.NOT_POSSIBLE,
            "NONE",
        ),
        ({"match": {"api": "ListGroups", "group": "g"}, "do": HOLD}, ProblemKind.NOT_POSSIBLE, "ListGroups"),
        ({"match": {"api": "Heartbeat", "version": ">4"}, "do": HOLD}, ProblemKind.NOT_POSSIBLE, "0 to 4"),
        (
            {"match": {"api": "Heartbeat", "first_join": True}, "do": HOLD},
            ProblemKind.NOT_POSSIBLE,
            "first_join",
        ),
        ({"match": {"error": "NONE"}, "do": HOLD}, ProblemKind.NOT_POSSIBLE, "response"),
        ({"do": {"at": "request", "throttle_ms": 5}}, ProblemKind.NOT_POSSIBLE, "throttle_ms"),
        (
            {
                "match": {"api": "JoinGroup"},
                "do": {"at": "answer", "coordinator": {"node_id": 1, "host": "", "port": 1}},
            },
            ProblemKind.NOT_POSSIBLE,
            "FindCoordinator",
        ),
        ({"do": {"at": "request", "fail": "EIO"}}, ProblemKind.NOT_POSSIBLE, "fail"),
        ({"do": {"at": "append", "hold": True}}, ProblemKind.NOT_POSSIBLE, "hold"),
        ({"do": {"at": "sync", "fail": "EIO", "torn_bytes": 5}}, ProblemKind.NOT_POSSIBLE, "torn"),
        ({"match": {"api": "Heartbeat", "version": 0}, "do": {"at": "append", "fail": "EIO"}}, None, ""),
        (
            {"match": {"api": "OffsetFetch"}, "do": {"at": "append", "fail": "EIO"}},
            ProblemKind.NOT_POSSIBLE,
            "append",
        ),
        (
            {"match": {"api": "Heartbeat"}, "do": {"at": "request", "error": 16, "partitions": ["orders-0"]}},
            ProblemKind.NOT_POSSIBLE,
            "partition",
        ),
        ({"on": {"event": "MemberLeft"}, "do": {"disconnect": []}}, ProblemKind.BAD_REQUEST, "do.disconnect"),
        (
            {"on": {"event": "MemberLeft"}, "do": {"failover": {"loading": "1h"}}},
            ProblemKind.BAD_REQUEST,
            "10 min",
        ),
        (
            {"match": {"api": "Fetch"}, "do": {"at": "before_answer", "crash": "partition"}},
            ProblemKind.NOT_POSSIBLE,
            "Fetch",
        ),
        (
            {"on": {"event": "OffsetsCommitted"}, "do": {"failover": True}},
            ProblemKind.NOT_POSSIBLE,
            "OffsetsCommitted",
        ),
        ({"on": {"event": "MemberLeft"}, "do": {"freeze": True}}, None, ""),
        ({"do": {"at": "after_append", "crash": "process"}}, ProblemKind.CONTROL_OFF, "control.enable=true"),
        ({"do": {"at": "request", "error": 16}}, None, ""),
    ],
    ids=str,
)
async def test_rules(lab: Lab, rule: dict[str, Any], kind: ProblemKind | None, says: str) -> None:
    made = msgspec.json.decode(msgspec.json.encode(rule), type=FaultRule)
    if kind is None:
        lab.faults.install_fault(made)
        return
    with pytest.raises(Problem) as caught:
        lab.faults.install_fault(made)
    assert caught.value.kind is kind
    assert says in caught.value.detail
    assert not lab.faults.list_faults()
    assert lab.is_plain()


async def test_an_empty_list_restricts_nothing(lab: Lab) -> None:
    """An empty filter equals an absent one, also for a field that a preset sets."""

    def rule(**fields: Any) -> dict[str, Any]:
        made = lab.status(lab.fault(**fields)).rule
        return {name: part for name, part in msgspec.to_builtins(made).items() if name != "name"}

    empty: dict[str, Any] = {name: [] for name in ("api", "client_id", "group", "error", "state")}
    assert rule(match=empty, do=HOLD) == rule(match={}, do=HOLD)
    assert rule(match={"api": [], "group": "billing"}, use="loading") == rule(
        match={"group": "billing"}, use="loading"
    )
    error = {"at": "answer", "error": "NOT_COORDINATOR"}
    assert rule(do={**error, "partitions": []}) == rule(do=error)
    on = {"event": "GroupStabilized"}
    assert rule(on={**on, "group": [], "client_id": []}, do={"failover": True}) == rule(
        on=on, do={"failover": True}
    )


@pytest.mark.parametrize(
    "rule", [{"matches": {}}, {"match": {"grup": "x"}}, {"do": {"hodl": True}}, {"times": "one"}]
)
def test_misspelt_names_are_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(rule), type=FaultRule)


def test_the_schema_can_be_made() -> None:
    schemas, components = msgspec.json.schema_components([FaultRule])
    assert schemas
    assert "for" in components["FaultRule"]["properties"]


async def test_names(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lab.fault(do=HOLD) == "fault-1"
    assert lab.fault(use="loading") == "loading-2"
    assert lab.fault(name="mine", do=HOLD) == "mine"
    with pytest.raises(Problem) as caught:
        lab.fault(name="mine", do=HOLD)
    assert caught.value.kind is ProblemKind.NAME_TAKEN
    monkeypatch.setattr(faults_module, "MAX_FAULTS", 3)
    with pytest.raises(Problem) as caught:
        lab.fault(do=HOLD)
    assert caught.value.kind is ProblemKind.TOO_MANY
    assert [fault.name for fault in lab.faults.list_faults()] == ["fault-1", "loading-2", "mine"]


async def test_the_calls_that_http_has(lab: Lab) -> None:
    """A typical sequence of calls; every answer has a text for people."""
    routes: dict[tuple[str, str], ApiRoute] = {(route.method, route.path): route for route in api.ROUTES}

    async def call(method: str, path: str, body: Any = None, **names: str) -> Any:
        route = routes[method, path]
        made = (
            None
            if route.body is None
            else msgspec.json.decode(msgspec.json.encode(body or {}), type=route.body)
        )
        answer = await route.handle(lab.control, ApiCall(path=names, query=None, body=made, actor="me"))
        assert isinstance(answer, route.answer)
        assert msgspec.json.encode(answer)
        assert route.text is not None
        assert route.text(answer)
        return answer

    assert (await call("GET", "/faults")).faults == []
    rule = {"name": "slow", "match": {"api": "SyncGroup"}, "do": HOLD}
    made = await call("POST", "/faults", rule)
    assert (made.name, made.state, made.by, made.rule.times) == ("slow", "active", "me", 1)
    assert msgspec.json.decode(msgspec.json.encode(made.rule))["do"] == HOLD
    replaced = await call("PUT", "/faults/{name}", {"match": {"api": "JoinGroup"}, "do": HOLD}, name="slow")
    assert replaced.rule.match.api == "JoinGroup"
    assert (await call("GET", "/faults/{name}", name="slow")).hit == 0
    assert (await call("POST", "/faults/{name}/release", {"one": "oldest"}, name="slow")).released == 0
    with pytest.raises(Problem):
        await call("POST", "/faults/{name}/wait", {"hit": 1, "within": "1ms"}, name="slow")
    assert len((await call("GET", "/faults")).faults) == 1
    assert (await call("DELETE", "/faults/{name}", name="slow")).removed == ["slow"]
    assert (await call("DELETE", "/faults")).removed == []
    with pytest.raises(Problem) as caught:
        await call("PUT", "/faults/{name}", {"name": "other", "do": HOLD}, name="slow")
    assert caught.value.kind is ProblemKind.BAD_REQUEST
