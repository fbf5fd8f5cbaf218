"""The error of a request that cannot be fulfilled: a sentence to print, and further fields.

HTTP transmits it as RFC 9457 (problem+json).
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ProblemKind(Enum):
    """The kinds of problems: the word after `urn:groupd:`, and the HTTP status."""

    BAD_REQUEST = ("bad-request", 400)
    CONTROL_OFF = ("control-off", 403)
    BAD_TOKEN = ("bad-token", 401)
    FOREIGN_HOST = ("foreign-host", 403)
    NO_SUCH_PATH = ("no-such-path", 404)
    NO_SUCH_GROUP = ("no-such-group", 404)
    NO_SUCH_MEMBER = ("no-such-member", 404)
    NO_SUCH_TOPIC = ("no-such-topic", 404)
    NO_SUCH_FAULT = ("no-such-fault", 404)
    NO_SUCH_RECORDING = ("no-such-recording", 404)
    NO_SUCH_NAMESPACE = ("no-such-namespace", 404)
    NO_SUCH_METHOD = ("no-such-method", 405)
    NOT_MET = ("not-met", 409)
    CLOCK_STOPPED = ("clock-stopped", 409)
    AMBIGUOUS_MEMBER = ("ambiguous-member", 409)
    NAME_TAKEN = ("name-taken", 409)
    MEMBER_PARKED = ("member-parked", 409)
    REFUSED = ("refused", 409)
    """The coordinator answered with one of Kafka's errors; the field `error` has its name."""
    RESTARTED = ("restarted", 409)
    """The request refers to an event of an earlier process."""
    TOO_LARGE = ("too-large", 413)
    NOT_JSON = ("not-json", 415)
    NOT_POSSIBLE = ("not-possible", 422)
    TOO_MANY = ("too-many", 429)
    INTERNAL = ("internal", 500)
    """groupd has an internal error; its log has the details."""
    LOADING = ("loading", 503)

    def __init__(self, word: str, status: int) -> None:
        self.word: Final = word
        self.status: Final = status


class Problem(Exception):
    """The error of a request that is refused or cannot be fulfilled. `fields` are JSON values. Names of groups
    and members in `detail` are printable."""

    def __init__(
        self, kind: ProblemKind, title: str, detail: str, fields: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.title = title
        self.detail = detail
        self.fields = dict(fields or {})
