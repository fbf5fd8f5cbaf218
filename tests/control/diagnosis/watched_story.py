"""A transcript with oracles."""

from coordinator.core.outcome import Outcome
from coordinator.group.group_requests import GroupTimerKey
from coordinator.group.topics_image import TopicsImage
from tests.control.diagnosis.virtual_oracles import VirtualOracleContext
from tests.scenarios.runner import Story


class WatchedStory(Story):
    """A story with oracles. It gets the topics, which stories do not contain."""

    def __init__(self, topics: TopicsImage) -> None:
        self.now_ms = 0
        self.watch = VirtualOracleContext(lambda: self.shard, self.now, topics)
        super().__init__()

    def play(self, *commands: str) -> None:
        """Commands, one after the other."""
        for command in commands:
            self.command(command)
            self.watch.look()

    def follow(self, outcome: Outcome) -> list[str]:
        lines = super().follow(outcome)
        self.watch.take(outcome)
        return lines

    def fire(self, key: GroupTimerKey) -> list[str]:
        self.watch.look()
        return super().fire(key)
