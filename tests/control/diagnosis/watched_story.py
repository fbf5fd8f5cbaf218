"""A transcript with oracles."""

from coordinator.group.timer_key import TimerKey
from coordinator.group.topics_image import TopicsImage
from coordinator.machine.outcome import Outcome
from tests.control.oracles.virtual_watch import VirtualWatch
from tests.scenarios.runner import Story


class WatchedStory(Story):
    """A story that is watched. In: the topics, which a story does not say."""

    def __init__(self, topics: TopicsImage) -> None:
        self.now_ms = 0
        self.watch = VirtualWatch(lambda: self.shard, self.now, topics)
        super().__init__()

    def play(self, *commands: str) -> None:
        """Commands, one after the other."""
        for command in commands:
            self.command(command)
            self.watch.look()

    def follow(self, outcome: Outcome) -> list[str]:
        """See `Story`."""
        lines = super().follow(outcome)
        self.watch.take(outcome)
        return lines

    def fire(self, key: TimerKey) -> list[str]:
        """See `Story`."""
        self.watch.look()
        return super().fire(key)
