"""Loops over lists of requests have checkpoints, or a reason why they need none."""

import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from coordinator.core.time_budget import ITERATION_NS, SLICE_NS
from tests.tooling import request_loops

EXCEPTIONS = Path(__file__).with_name("request_loops.toml")
MAX_OPEN = 7
"""Functions that take too long for the largest request. A change may only lower it."""

MESSAGES = """
@struct
class Part:
    numbers: Array[Int32]

@struct
class Topic:
    name: String
    parts: NullableArray[Part] = since("1+", default=None)

@request(ApiKey.SAMPLE)
class SampleRequest:
    key: String
    topics: Array[Topic]

@struct
class Result:
    errors: Array[Int16]

@response(ApiKey.SAMPLE)
class SampleResponse:
    results: Array[Result]
"""
SAMPLE = """
Requests = SampleRequest | None

class Group:
    request: SampleRequest

def nested(request: SampleRequest):
    for topic in request.topics:
        for part in topic.parts or ():
            print(part.numbers)

def reads_numbers(self, part: "Part"):
    return [number + 1 for number in part.numbers]

class Handler:
    def handle(self, request: SampleRequest, context):
        topics = request.topics
        return sorted(topics, key=str)

    def of_alias(self, request: Requests):
        return any(topic.name for topic in request.topics)

def of_sequence(topics: list[Topic], by_name: dict[str, Part]):
    return {topic.name for topic in topics}

def of_attribute(group: Group):
    for number, topic in enumerate(group.request.topics):
        print(number, topic)

def outer(request: SampleRequest):
    def inner():
        return sum(len(topic.parts) for topic in request.topics)
    return inner

async def with_checkpoint(request: SampleRequest, budget):
    for topic in request.topics:
        await budget.checkpoint()

def up_to_a_constant(request: SampleRequest):
    return [part for topic in request.topics[:MOST] for part in topic.parts[:10]]

def up_to_a_number_of_the_client(request: SampleRequest, most):
    return list(request.topics[:most])

def of_any_field(request, field):
    return set(getattr(request, field))

def runs_in_a_thread(request: SampleRequest):
    return list(request.topics)

def runs_in_a_thread_and_here(request: SampleRequest):
    return list(request.topics)

async def calls_threads(request: SampleRequest):
    await run_in_thread_if_large(lambda: runs_in_a_thread(request), 1)
    await run_in_thread_if_large(lambda: runs_in_a_thread_and_here(request), 1)
    runs_in_a_thread_and_here(request)
    await run_in_thread_if_large(lambda: 1, up_to_a_constant(request))

async def awaits_something_else(request: SampleRequest, task):
    for topic in request.topics:
        await task

def in_steps(request: SampleRequest):
    for topic in request.topics:
        yield

def of_other_values(request: SampleRequest, response: SampleResponse, topics):
    for topic in topics:
        print(topic)
    return len(request.topics), [result for result in response.results], list(request.key)

def rebinds(request: SampleRequest, other):
    request = other
    return list(request.topics)
"""


def read_exceptions() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(EXCEPTIONS.read_text())


def list_functions(*kinds: str) -> list[str]:
    entries = chain.from_iterable(read_exceptions()[kind] for kind in kinds)
    return [function for entry in entries for function in entry["functions"]]


def test_the_rule_sees_loops_in_a_module_that_breaks_it() -> None:
    aliases: dict[str, request_loops.Type] = {}
    types = request_loops.read_message_types({"sample.py": MESSAGES})
    types = request_loops.add_classes(types, aliases, {"module.py": SAMPLE})
    found = request_loops.find_loops("module.py", SAMPLE, types, aliases)
    assert {name.removeprefix("module.py:"): len(lines) for name, lines in found.items()} == {
        "nested": 2,
        "reads_numbers": 1,
        "Handler.handle": 1,
        "Handler.of_alias": 1,
        "of_sequence": 1,
        "of_attribute": 1,
        "outer.inner": 1,
        "awaits_something_else": 1,
        "up_to_a_number_of_the_client": 1,
        "of_any_field": 1,
        "runs_in_a_thread_and_here": 1,
    }


def test_each_function_that_loops_over_a_request_has_checkpoints_or_a_reason() -> None:
    """`python -m tests.tooling.request_loops` prints the functions. Give a new one a checkpoint."""
    listed = list_functions("bounded", "cheap", "one_step", "open")
    assert len(listed) == len(set(listed))
    assert sorted(request_loops.examine()) == sorted(listed)


@pytest.mark.parametrize("kind", ["cheap", "one_step", "open"])
def test_the_time_of_the_largest_request_decides_the_kind_of_a_function(kind: str) -> None:
    for entry in read_exceptions()[kind]:
        duration_ns = entry["elements"] * entry["nanoseconds"]
        assert (duration_ns <= SLICE_NS) is (kind == "cheap"), entry["work"]
        assert duration_ns <= ITERATION_NS or kind == "open", entry["work"]


def test_no_more_functions_than_before_take_longer_than_an_iteration() -> None:
    assert len(list_functions("open")) <= MAX_OPEN
