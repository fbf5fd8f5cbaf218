"""DescribeClientQuotas without any quotas: filters, and invalid filters."""

from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.oracle.play import Play
from tests.oracle.session import session

NAMED, DEFAULT, ANY = 0, 1, 2
Part = tuple[str, int, str | None]
FILTERS: dict[str, list[Part]] = {
    "all": [],
    "any user": [("user", ANY, None)],
    "one user": [("user", NAMED, "nobody")],
    "a user without a name": [("user", NAMED, "")],
    "the default user of a client id": [("user", DEFAULT, None), ("client-id", NAMED, "c")],
    "an address": [("ip", NAMED, "no.such")],
    "a name that is null": [("user", NAMED, None)],
    "a name of the default": [("user", DEFAULT, "x")],
    "a name of any": [("user", ANY, "x")],
    "an unknown match type": [("user", 7, "x")],
    "twice": [("user", NAMED, "x"), ("user", DEFAULT, None)],
    "twice, and unknown": [("zoo", 7, "x"), ("zoo", 7, "x")],
    "no type": [("", NAMED, "x")],
    "an unknown type": [("zoo", NAMED, "x")],
    "an address and a user": [("ip", ANY, None), ("user", ANY, None)],
    "an address and a client id": [("client-id", DEFAULT, None), ("ip", NAMED, "::1")],
}


@session(version=range(2))
def quotas_of_nobody(play: Play, version: int) -> None:
    for note, parts in FILTERS.items():
        for strict in (False, True):
            components = [
                ComponentData(entity_type=kind, match_type=match_type, match=match)
                for kind, match_type, match in parts
            ]
            asked = DescribeClientQuotasRequest(components=components, strict=strict)
            play.ask(asked, version, note=f"{note}{', strictly' if strict else ''}")
