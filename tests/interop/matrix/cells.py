"""The cells of the matrix: each is a login at the broker with its expected result.

A further SASL mechanism is a name in `secured_broker.MECHANISMS`. If its credentials are not a password,
`_secret` and the programs of the clients need support for them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.interop.secured_broker import (
    FORBIDDEN_GROUP,
    FORBIDDEN_TOPIC,
    MECHANISMS,
    MISTAKE,
    OPEN,
    PASSWORDS,
    SecuredBroker,
)
from tests.interop.secured_files import SecuredFiles, Stores
from tests.security.server.certificates import PASSWORD

LOGINS: Final = {
    "right": ("alice", PASSWORDS["alice"]),
    "wrong": ("alice", MISTAKE),
    "unknown": ("nobody", PASSWORDS["alice"]),
}
SECURED: Final = ("SASL_PLAINTEXT", "SASL_SSL")
CERTIFICATES: Final = ("no", "foreign", "expired")
FORMS: Final = ("PKCS12", "JKS")
"""Of the stores of a Java client, besides PEM."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One way into the broker."""

    name: str
    listener: str
    visit: str
    """What the client does: work, login or stay (see `clients/visits.py`)."""
    refusal: str = ""
    """Why it is not let in, as `words.py` has it; "" where it is."""
    settings: dict[str, str] = field(default_factory=dict)
    """Further settings of the client."""
    certificate: str = ""
    """Whose certificate it shows."""
    form: str = ""
    """That of a Java client's stores, where these are not PEM files."""

    def __str__(self) -> str:
        """Return the name, for test ids."""
        return self.name

    def line(self, client: str, broker: SecuredBroker, stores: dict[str, Stores]) -> str:
        """Return the line that the program of a client reads. `stores` are by format."""
        fields = {
            "name": self.name,
            "bootstrap": broker.addresses[self.listener],
            "visit": self.visit,
            "topic": topic_of(client, stays=self.visit == "stay"),
            "group": f"{OPEN}{client} {self.name}",
            "refused_topic": FORBIDDEN_TOPIC,
            "refused_group": FORBIDDEN_GROUP,
            "authority": broker.files.authority,
            **self.settings,
            **_shown(self.certificate, broker.files),
        }
        if self.form:
            store = stores[self.form]
            fields |= {"form": self.form, "trust_store": store.trust_store, "store_password": PASSWORD}
            fields["key_store"] = store.key_store if self.certificate else ""
        return "\t".join(f"{name}={value}" for name, value in fields.items() if value)


def topic_of(client: str, *, stays: bool = False) -> str:
    """Return the topic of a client's cells. Cells that stay write many records to a topic of their own."""
    return f"{OPEN}{client}-stays" if stays else f"{OPEN}{client}"


def _shown(certificate: str, files: SecuredFiles) -> dict[str, str]:
    pairs = {"alice": files.alice, "foreign": files.foreign, "expired": files.expired}
    if certificate not in pairs:
        return {}
    chain, key, both = pairs[certificate]
    return {"certificate": chain, "key": key, "certificate_and_key": both}


def _secret(mechanism: str, login: str) -> dict[str, str]:
    user, password = LOGINS[login]
    return {"mechanism": mechanism, "user": user, "password": password}


def _cells() -> Iterator[Cell]:
    """Those that take longest come first."""
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        short = {"protocol": "SASL_SSL", **_secret(mechanism, "right")}
        yield Cell(f"SASL_SSL {mechanism} expired", "SHORT", "stay", settings=short)
    yield Cell("PLAINTEXT", "PLAINTEXT", "work", settings={"protocol": "PLAINTEXT"})
    ssl = {"protocol": "SSL"}
    yield Cell("SSL right", "SSL", "work", settings=ssl, certificate="alice")
    for certificate in CERTIFICATES:
        yield Cell(f"SSL {certificate}", "SSL", "login", f"{certificate} certificate", ssl, certificate)
    for protocol in SECURED:
        for mechanism in MECHANISMS:
            for login in LOGINS:
                yield Cell(
                    f"{protocol} {mechanism} {login}",
                    protocol,
                    *(("work", "") if login == "right" else ("login", "credentials")),
                    {"protocol": protocol, **_secret(mechanism, login)},
                )
    unknown = {"protocol": "SASL_PLAINTEXT", **_secret("PLAIN", "right")}
    yield Cell("SASL_PLAINTEXT mechanism unknown", "LIMITED", "login", "mechanism", unknown)


CELLS: Final = tuple(_cells())
JAVA_CELLS: Final = (
    *CELLS,
    *(
        Cell(
            f"SSL {form} stores", "SSL", "work", settings={"protocol": "SSL"}, certificate="alice", form=form
        )
        for form in FORMS
    ),
    *(
        Cell(
            f"SASL_SSL {form} stores",
            *("SASL_SSL", "login"),
            settings={"protocol": "SASL_SSL", **_secret("SCRAM-SHA-512", "right")},
            form=form,
        )
        for form in FORMS
    ),
)
"""Java clients have their keys and certificates in stores."""
