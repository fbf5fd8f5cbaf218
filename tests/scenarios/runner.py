"""Run a transcript: a text file of comments, commands and the outcomes of the core.

# A comment, in the reader's words.
    > join A protocols=range topics=orders
      A <- JoinGroup MEMBER_ID_REQUIRED …

A command begins with `>`; the indented lines under it are its outcome. `run` returns the whole file with the
current outcomes. A test compares it, and `python -m tests.scenarios.rewrite` stores it.

Clients have names. Each keeps the state of a Kafka client (member id, generation, protocol) and the options of its
last command (`v`, the API version, and `id`, `generation` apply to one request only). Member ids are
`<client or instance>-<number>`. `client` and `given` set the initial state of a story.

Every record is durable at once. Each command is followed by a check of the state's invariants and of the replay.
"""

import shlex
from collections.abc import Callable, Iterable
from typing import Any

from coordinator.core.outcome import Context, Now, Outcome
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind, Request, TopicsChanged
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tests.group.config import group_config
from tests.group.entries import Entry, entries_of, replay
from tests.group.new_shard import new_shard
from tests.scenarios import render
from tests.scenarios.client import ONCE, Client, member_uuid, milliseconds, options_of, shorten
from tests.scenarios.requests import NEWEST, build

_CONFIG = {
    "delay": "group_initial_rebalance_delay_ms",
    "max-size": "group_max_size",
    "retention": "offsets_retention_minutes",
    "min-session": "group_min_session_timeout_ms",
    "metadata-max": "offset_metadata_max_bytes",
}


class Story:
    """One core, its clock, its log and the clients that talk to it."""

    def __init__(self) -> None:
        self.config = group_config()
        self.now_ms = 0
        self.log: list[Entry] = []
        self.timers: dict[GroupTimerKey, int] = {}
        self.clients: dict[str, Client] = {}
        self.waiters: dict[int, tuple[str, int]] = {}
        self.asked = 0
        self.ids = 0
        self.shard = new_shard(self.config)
        self.begin()

    def now(self) -> Now:
        """The story's time."""
        return Now(self.now_ms, render.WALL_EPOCH_MS + self.now_ms)

    def begin(self) -> list[str]:
        """Load the log into a new core."""
        self.shard = new_shard(self.config)
        self.timers.clear()
        self.waiters.clear()
        replay(self.shard, self.log)
        return self.follow(self.shard.on_loaded(self.now()))

    def follow(self, outcome: Outcome) -> list[str]:
        """Carry an outcome out as the runtime does; return its lines."""
        lines = render.outcome(outcome, self.waiters, self.now_ms)
        self.log.extend(entries_of(outcome))
        for key, deadline in outcome.timers.items():
            self.timers.pop(key, None)
            if deadline is not None:
                self.timers[key] = deadline
        for waiter, message in outcome.replies:
            name, _ = self.waiters.pop(waiter)
            if isinstance(message, JoinGroupResponse) and name in self.clients:
                client = self.clients[name]
                client.member_id = message.member_id or client.member_id
                if message.error_code == ErrorCode.NONE:
                    client.generation_id = message.generation_id
                    client.protocol_name = message.protocol_name
        return lines

    def command(self, line: str) -> list[str]:
        """One command's output."""
        verb, *words = shlex.split(line)
        special: dict[str, Callable[[list[str]], list[str]]] = {
            "config": self.configure,
            "advance": self.advance,
            "crash": lambda _: self.begin(),
            "reload": self.reload,
            "forget": self.forget,
            "client": self.introduce,
            "given": self.given,
        }
        lines = special[verb](words) if verb in special else self.request(verb, words)
        self.check()
        return lines

    def configure(self, words: list[str]) -> list[str]:
        """`config delay=0s max-size=2`: another configuration, as after a restart."""
        values: dict[str, Any] = {}
        for word in words:
            name, _, text = word.partition("=")
            value = milliseconds(text) if text[-1] in "smhd" else int(text)
            values[_CONFIG[name]] = value // 60_000 if name == "retention" else value
        self.config = group_config(**values)
        return self.begin()

    def advance(self, words: list[str]) -> list[str]:
        """`advance 3s`: timers fire on the way, each at its time. Of reports that follow each other the first is
        shown."""
        end, lines = self.now_ms + milliseconds(words[0]), []
        repeated, last = 0, None
        while self.timers and min(self.timers.values()) <= end:
            key = min(self.timers, key=lambda key: self.timers[key])
            self.now_ms = self.timers.pop(key)
            fired = [f"  {line}" for line in self.fire(key)]
            if key.kind is GroupTimerKind.REPORT and key == last:
                repeated += 1
            elif fired:
                lines += [f"  and {repeated} more"] if repeated else []
                lines += [f"at {render.span(self.now_ms)} {render.timer(key)}", *fired]
                repeated, last = 0, key
        lines += [f"  and {repeated} more"] if repeated else []
        self.now_ms = end
        return lines

    def fire(self, key: GroupTimerKey) -> list[str]:
        """A timer's time has come; its lines."""
        return self.follow(self.shard.fire_timer(key, self.now()))

    def reload(self, _: list[str]) -> list[str]:
        """`reload`: the partition moves away and comes back."""
        lines = [render.reply(self.waiters[w][0], m, self.waiters[w][1]) for w, m in self.shard.unload()]
        return lines + self.begin()

    def forget(self, words: list[str]) -> list[str]:
        """`forget A`: the client starts again, with the same options."""
        self.clients[words[0]] = Client(words[0], self.clients[words[0]].options)
        return []

    def introduce(self, words: list[str]) -> list[str]:
        """`client A session=6s`: how a client is configured."""
        self.clients[words[0]] = Client(words[0], options_of(words))
        return []

    def given(self, words: list[str]) -> list[str]:
        """`given A=orders:0 B=orders:1 session=6s`: these are the members of a Stable group, A leads. It took
        them the initial rebalance delay, without a word here."""
        shared = options_of(words)
        parts = [word for word in words if word.partition("=")[0] not in shared]
        names = [part.partition("=")[0] for part in parts]
        for name in names:
            client = self.clients.setdefault(name, Client(name))
            client.options = shared | client.options
            self.request("join", [name])
            if client.member_id:
                self.request("join", [name])
        self.advance([f"{self.config.group_initial_rebalance_delay_ms * len(names)}ms"])
        self.request("sync", [names[0], *parts])
        for name in names[1:]:
            self.request("sync", [name])
        return []

    def request(self, verb: str, words: list[str]) -> list[str]:
        """Run `<verb> <client> <arguments> <options>` and return its effects."""
        client = self.clients.setdefault(words[0], Client(words[0]))
        options = options_of(words)
        client.options |= {key: value for key, value in options.items() if key not in ONCE}
        arguments = [word for word in words[1:] if word.partition("=")[0] not in options]
        version = int(options.get("v", NEWEST[verb]))
        message = build(verb, client, arguments, client.options | options, self.clients)
        return self.ask(client, message, version)

    def ask(self, client: Client, message: Request, version: int) -> list[str]:
        """Hand a request to the core; new member ids are numbered instead of random."""
        self.asked += 1
        waiter, needs_id = self.asked, isinstance(message, JoinGroupRequest) and not message.member_id
        self.ids += needs_id
        self.waiters[waiter] = (client.name, version)
        context = Context(
            waiter, version, client.name, "/127.0.0.1", member_uuid(self.ids) if needs_id else ""
        )
        outcome = self.shard.handle(message, context, self.now())
        lines = self.follow(outcome)
        return (
            [*lines, f"{client.name} waits"]
            if waiter in self.waiters and not isinstance(message, TopicsChanged)
            else lines
        )

    def check(self) -> None:
        """Check the invariants of the state, and that the log alone gives its durable half."""
        self.shard.check_invariants()
        loaded = new_shard(self.config)
        replay(loaded, self.log)
        assert loaded.snapshot_durable() == self.shard.snapshot_durable(), "the log tells another story"


def run(lines: Iterable[str]) -> list[str]:
    """The transcript with its comments and commands unchanged and the present outputs."""
    story, result = Story(), list[str]()
    for line in lines:
        if not line.startswith("  "):
            result.append(line)
        if line.startswith(">"):
            result += [f"  {shorten(output)}" for output in story.command(line[1:])]
    return result
