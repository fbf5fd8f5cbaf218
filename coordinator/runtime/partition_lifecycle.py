"""The life cycle of a coordinator partition: a state machine without a clock, files or a logger.

Each partition of `__consumer_offsets` and `__transaction_state` has one, with a single broker, with several brokers
in one process and in a cluster on etcd. `PartitionDriver` (`partition_driver.py`) applies the events and runs the
loads, timers and trials. Nothing else changes a stage.

A stage is a position in the life cycle. A state is what clients see of it:

    stage             state      machine      the driver
    ABSENT            absent     none         has closed the log
    WAITING           loading    none         begins a load after a delay, or when the log is free
    LOADING_DURABLE   loading    none         reads a log up to its durable offset, after a failed sync
    LOADING           loading    none         opens, reopens or keeps the log, and reads all of it
    SERVING_DURABLE   read-only  durable part reopens the log
    DURABLE_WAITING   read-only  durable part reopens the log again after a delay
    UNWRITABLE        read-only  whole log    repeats a trial append until the disk takes it
    OWNED             active     whole log    serves every request
    FAILED            failed     none         has given up: the log is damaged

    event               from                                  to
    OPEN                ABSENT, FAILED                        WAITING
    LOAD                WAITING; DURABLE_WAITING              LOADING; SERVING_DURABLE
    LOAD_DURABLE        WAITING                               LOADING_DURABLE
    DURABLE_LOADED      LOADING_DURABLE                       SERVING_DURABLE
    DURABLE_UNREADABLE  LOADING_DURABLE                       LOADING
    REOPENED            SERVING_DURABLE                       LOADING
    LOADED              LOADING                               OWNED
    LOADED_UNWRITABLE   LOADING                               UNWRITABLE
    LOAD_REFUSED        LOADING, LOADING_DURABLE              WAITING
                        SERVING_DURABLE                       DURABLE_WAITING
    LOAD_FAILED         LOADING, SERVING_DURABLE,             FAILED
                        OWNED, UNWRITABLE
    APPEND_FAILED       OWNED, UNWRITABLE                     WAITING
    RELOAD              OWNED, UNWRITABLE, DURABLE_WAITING    WAITING
                        SERVING_DURABLE                       LOADING
    WRITABLE            UNWRITABLE                            OWNED
    FENCED              all with a machine                    ABSENT
    RELEASE             all but ABSENT                        ABSENT

After a failed append or sync, the machine is ahead of the log, so it is always given up (ADR 2):

    OWNED ─APPEND_FAILED─▶ WAITING ─LOAD─▶ LOADING ─LOADED─▶ OWNED           the first trial append succeeds
                              │                └─LOADED_UNWRITABLE─▶ UNWRITABLE ─WRITABLE─▶ OWNED
                              └─LOAD_DURABLE─▶ LOADING_DURABLE ─▶ SERVING_DURABLE ─REOPENED─▶ LOADING ...
    OWNED ─FENCED─▶ ABSENT ─OPEN─▶ WAITING ...     in a cluster on etcd: the member claims the partition again first

LOAD_FAILED leaves OWNED and UNWRITABLE when the first outcome of a loaded machine cannot be applied.

The *epoch* numbers changes of the owner: an event of an older epoch is ignored. The *tenure* counts how often the
partition was opened. The *attempt* numbers the load, delay or trial that the partition waits for: a result of
another attempt is stale. Source of the epoch and of the states: Kafka's `CoordinatorRuntime.CoordinatorState`,
`scheduleLoadOperation` and `scheduleUnloadOperation`.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class PartitionState(Enum):
    """The client's view of a partition. The values are labels of a metric."""

    ABSENT = "absent"
    LOADING = "loading"
    OWNED = "active"
    READ_ONLY = "read-only"
    FAILED = "failed"


class LifecycleStage(Enum):
    """The position of a partition in its life cycle."""

    ABSENT = PartitionState.ABSENT, "absent"
    WAITING = PartitionState.LOADING, "waiting"
    LOADING_DURABLE = PartitionState.LOADING, "loading-durable"
    LOADING = PartitionState.LOADING, "loading"
    SERVING_DURABLE = PartitionState.READ_ONLY, "serving-durable"
    DURABLE_WAITING = PartitionState.READ_ONLY, "durable-waiting"
    UNWRITABLE = PartitionState.READ_ONLY, "unwritable"
    OWNED = PartitionState.OWNED, "owned"
    FAILED = PartitionState.FAILED, "failed"

    def __init__(self, state: PartitionState, _: str) -> None:
        self.state = state


class LifecycleEvent(Enum):
    """Events of the life cycle, in the order of the table above."""

    OPEN = auto()
    LOAD = auto()
    LOAD_DURABLE = auto()
    DURABLE_LOADED = auto()
    DURABLE_UNREADABLE = auto()
    REOPENED = auto()
    LOADED = auto()
    LOADED_UNWRITABLE = auto()
    LOAD_REFUSED = auto()
    LOAD_FAILED = auto()
    APPEND_FAILED = auto()
    RELOAD = auto()
    WRITABLE = auto()
    FENCED = auto()
    RELEASE = auto()


_S, _E = LifecycleStage, LifecycleEvent
TRANSITIONS: Final[Mapping[tuple[LifecycleStage, LifecycleEvent], LifecycleStage]] = {
    (_S.ABSENT, _E.OPEN): _S.WAITING,
    (_S.FAILED, _E.OPEN): _S.WAITING,
    (_S.WAITING, _E.LOAD): _S.LOADING,
    (_S.DURABLE_WAITING, _E.LOAD): _S.SERVING_DURABLE,
    (_S.WAITING, _E.LOAD_DURABLE): _S.LOADING_DURABLE,
    (_S.LOADING_DURABLE, _E.DURABLE_LOADED): _S.SERVING_DURABLE,
    (_S.LOADING_DURABLE, _E.DURABLE_UNREADABLE): _S.LOADING,
    (_S.SERVING_DURABLE, _E.REOPENED): _S.LOADING,
    (_S.LOADING, _E.LOADED): _S.OWNED,
    (_S.LOADING, _E.LOADED_UNWRITABLE): _S.UNWRITABLE,
    (_S.LOADING, _E.LOAD_REFUSED): _S.WAITING,
    (_S.LOADING_DURABLE, _E.LOAD_REFUSED): _S.WAITING,
    (_S.SERVING_DURABLE, _E.LOAD_REFUSED): _S.DURABLE_WAITING,
    (_S.LOADING, _E.LOAD_FAILED): _S.FAILED,
    (_S.SERVING_DURABLE, _E.LOAD_FAILED): _S.FAILED,
    (_S.OWNED, _E.LOAD_FAILED): _S.FAILED,
    (_S.UNWRITABLE, _E.LOAD_FAILED): _S.FAILED,
    (_S.OWNED, _E.APPEND_FAILED): _S.WAITING,
    (_S.UNWRITABLE, _E.APPEND_FAILED): _S.WAITING,
    (_S.OWNED, _E.RELOAD): _S.WAITING,
    (_S.UNWRITABLE, _E.RELOAD): _S.WAITING,
    (_S.DURABLE_WAITING, _E.RELOAD): _S.WAITING,
    (_S.SERVING_DURABLE, _E.RELOAD): _S.LOADING,
    (_S.UNWRITABLE, _E.WRITABLE): _S.OWNED,
    (_S.OWNED, _E.FENCED): _S.ABSENT,
    (_S.UNWRITABLE, _E.FENCED): _S.ABSENT,
    (_S.SERVING_DURABLE, _E.FENCED): _S.ABSENT,
    (_S.DURABLE_WAITING, _E.FENCED): _S.ABSENT,
    **{(stage, _E.RELEASE): _S.ABSENT for stage in _S if stage is not _S.ABSENT},
}

_CONTINUING: Final = frozenset(
    {
        (_S.SERVING_DURABLE, _E.REOPENED),
        (_S.SERVING_DURABLE, _E.RELOAD),
        (_S.DURABLE_WAITING, _E.RELOAD),
    }
)
"""Transitions that keep the same load or delay."""

SERVING: Final = frozenset({_S.SERVING_DURABLE, _S.DURABLE_WAITING, _S.UNWRITABLE, _S.OWNED})
"""Stages in which the partition has a machine."""


class IllegalTransition(AssertionError):
    """An event that is impossible in a partition's stage, which is a defect of the driver."""


class PartitionLifecycle:
    """The life cycle of one partition: its stage, epoch, tenure and attempt."""

    __slots__ = ("attempt", "epoch", "refused_appends", "stage", "state", "tenure")

    def __init__(self) -> None:
        self.stage = LifecycleStage.ABSENT
        self.state = PartitionState.ABSENT
        """The state of the stage. Each request reads it."""
        self.epoch = -1
        self.tenure = 0
        self.attempt = 0
        self.refused_appends = 0
        """Number of rejected appends since the last successful one."""

    @property
    def is_serving(self) -> bool:
        """Whether the partition has a machine."""
        return self.stage in SERVING

    def accept_epoch(self, epoch: int) -> bool:
        """Accept the epoch of an owner. Return False for a stale one, which is not above the last one."""
        if epoch <= self.epoch:
            return False
        self.epoch = epoch
        return True

    def apply(self, event: LifecycleEvent) -> None:
        """Change the stage.

        Raises:
            IllegalTransition: The event is impossible in this stage. The stage stays.
        """
        transition = self.stage, event
        stage = TRANSITIONS.get(transition)
        if stage is None:
            raise IllegalTransition(f"{event.name} cannot happen in stage {self.stage.name}")
        if event is LifecycleEvent.OPEN:
            self.tenure += 1
        elif event is LifecycleEvent.APPEND_FAILED:
            self.refused_appends += 1
        if transition not in _CONTINUING:
            self.attempt += 1
        self.stage, self.state = stage, stage.state

    def record_accepted_append(self) -> None:
        """Record that the disk accepts appends again."""
        self.refused_appends = 0

    def require_write_trial(self) -> None:
        """Require a trial append after the next load, because the disk may reject appends."""
        self.refused_appends = max(self.refused_appends, 1)
