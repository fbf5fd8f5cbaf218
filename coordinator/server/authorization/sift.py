"""Elements of a request that are refused one by one."""

from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


def sift(
    elements: Iterable[Asked], allows: Callable[[Asked], bool], refuse: Callable[[Asked], Answered]
) -> Generator[None, None, tuple[list[Asked], list[Answered]]]:
    """What is left of the elements, and the answers to those that are refused, each in their order; in steps."""
    allowed: list[Asked] = []
    refused: list[Answered] = []
    for element in elements:
        if allows(element):
            allowed.append(element)
        else:
            refused.append(refuse(element))
        yield
    return allowed, refused
