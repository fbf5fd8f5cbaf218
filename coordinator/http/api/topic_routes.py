"""API routes for topics: list, create and delete."""

from typing import Annotated, Final

from msgspec import Meta, Struct, field

from coordinator.control.admin.topic_operations import TopicDescription
from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import ProblemKind
from coordinator.core.wire_name import wire_name
from coordinator.http.api.api_route import ApiCall, ApiRoute


@wire_name("NewTopic")
class NewTopic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new topic. The default of `partitions` is num.partitions."""

    name: str
    partitions: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    config: dict[str, str] = field(default_factory=dict)


@wire_name("TopicList")
class TopicList(Struct, frozen=True, kw_only=True):
    """Topics, in the order of their names."""

    topics: list[TopicDescription]


async def list_topics(control: ControlPlane, call: ApiCall) -> TopicList:
    """Return all topics that are not internal."""
    return TopicList(topics=await control.topics.list_topics())


async def create_topic(control: ControlPlane, call: ApiCall) -> TopicDescription:
    new: NewTopic = call.body
    return await control.topics.create_topic(new.name, new.partitions, new.config, call.actor)


async def delete_topic(control: ControlPlane, call: ApiCall) -> None:
    await control.topics.delete_topic(call.path["topic"], call.actor)


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
        summary="Create a topic, as CreateTopics does",
        handle=create_topic,
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
