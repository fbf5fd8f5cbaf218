"""Topics: listed, made, deleted."""

from typing import Annotated, Final

from msgspec import Meta, Struct, field

from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.problem import ProblemKind
from coordinator.control.topics.topics import TopicDescription


class NewTopic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic to be made. `partitions`: where they are not said, as many as num.partitions says."""

    name: str
    partitions: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    config: dict[str, str] = field(default_factory=dict)


class TopicList(Struct, frozen=True, kw_only=True):
    """Topics, in the order of their names."""

    topics: list[TopicDescription]


async def list_topics(control: Control, call: Call) -> TopicList:
    """All topics that are not the broker's own."""
    return TopicList(topics=await control.topics.all())


async def make_topic(control: Control, call: Call) -> TopicDescription:
    """As CreateTopics."""
    new: NewTopic = call.body
    return await control.topics.make(new.name, new.partitions, new.config, call.actor)


async def delete_topic(control: Control, call: Call) -> None:
    """As DeleteTopics."""
    await control.topics.delete(call.path["topic"], call.actor)


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/topics",
        summary="Topics with their partitions",
        handle=list_topics,
        answer=TopicList,
    ),
    ApiRoute(
        method="POST",
        path="/topics",
        summary="Make a topic, as CreateTopics does",
        handle=make_topic,
        body=NewTopic,
        answer=TopicDescription,
        changes=True,
        problems=(ProblemKind.NAME_TAKEN, ProblemKind.REFUSED),
    ),
    ApiRoute(
        method="DELETE",
        path="/topics/{topic}",
        summary="Delete a topic, as DeleteTopics does",
        handle=delete_topic,
        changes=True,
        problems=(ProblemKind.NO_SUCH_TOPIC, ProblemKind.REFUSED),
    ),
)
