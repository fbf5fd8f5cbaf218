"""The principal of a client certificate: Java's form of the subject, and Kafka's mapping rules."""

import contextlib
import datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from coordinator.security.core.principal_mapping import (
    InvalidDer,
    MappingError,
    NoMatchingRule,
    PrincipalMapping,
    parse_distinguished_name,
    parse_subject,
)
from tests.security.core.principal_cases import questions, recorded

ONLY_JAVAS = ("RULE:CN=(\\p{Alpha}+),.*/$1/", "RULE:.*[a-z&&[^b]].*/x/", "RULE:CN=\\QDuke\\E,.*/x/")
"""Patterns that Python does not read."""


def names(rules: str, subjects: list[str]) -> list[str | None] | None:
    try:
        mapping = PrincipalMapping(rules)
    except MappingError:
        return None
    found: list[str | None] = []
    for subject in subjects:
        try:
            found.append(mapping.map_subject(subject))
        except NoMatchingRule:
            found.append(None)
    return found


def of_rules() -> list[dict[str, Any]]:
    return [answer for answer in recorded() if "rules" in answer]


def of_names() -> list[dict[str, Any]]:
    return [answer for answer in recorded() if "encoded" in answer]


def test_kafka_was_asked_everything() -> None:
    kept = ("rules", "subjects", "encoded")
    asked = [{name: answer[name] for name in kept if name in answer} for answer in recorded()]
    assert asked == questions(), "record again: python -m tests.security.core.principal_cases"


@pytest.mark.parametrize("answer", of_rules(), ids=lambda answer: ascii(answer["rules"])[:60])
def test_the_name_is_kafkas(answer: dict[str, Any]) -> None:
    found, told = names(answer["rules"], answer["subjects"]), answer["names"]
    if answer["rules"] in ONLY_JAVAS:
        assert found is None
        assert told is not None
    elif found is None:
        # Rules that can never make a name are refused at once.
        assert told is None or not any(told)
    else:
        # groupd treats a principal without a name as None.
        assert found == [name or None for name in told]


@pytest.mark.parametrize("answer", of_names(), ids=lambda answer: answer["encoded"][:60])
def test_the_subject_is_javas(answer: dict[str, Any]) -> None:
    assert parse_distinguished_name(bytes.fromhex(answer["encoded"])) == answer["name"]


@given(st.text(st.sampled_from("CN=a,$1\\/{}()?<>*.|RULE:DFT"), max_size=40))
def test_any_text_is_rules_or_is_refused(text: str) -> None:
    with contextlib.suppress(MappingError, NoMatchingRule):
        PrincipalMapping(f"RULE:{text}").map_subject("CN=a,O=b")


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ("CN=(.*)", "CN=(.*)"),
        ("DEFAULT, RULE:(.*/$1/", r"\(\.\* cannot be read"),
        ("RULE:CN=.*/$1/", "unknown group, 1"),
        ("RULE:(.*)/a$/", "without a group"),
    ],
)
def test_rules_that_cannot_be_followed_are_named(rules: str, named: str) -> None:
    with pytest.raises(MappingError, match=named):
        PrincipalMapping(rules)


# Certificates


def certificate(subject: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(subject, subject, key.public_key(), 1, now, now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )


def test_the_subject_is_found_in_a_certificate() -> None:
    name = x509.Name.from_rfc4514_string("CN=alice,OU=billing,O=Example,1.2.840.113549.1.9.1=a@b")
    written = "CN=alice,OU=billing,O=Example,1.2.840.113549.1.9.1=#1603614062"
    assert parse_subject(certificate(name)) == written
    assert parse_subject(certificate(x509.Name([]))) == ""


def test_whatever_a_certificate_is_cut_to_is_refused_and_nothing_else_happens() -> None:
    whole = certificate(x509.Name.from_rfc4514_string("CN=alice"))
    for length in range(len(whole)):
        with pytest.raises(InvalidDer):
            parse_subject(whole[:length])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_name_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(InvalidDer):
        parse_distinguished_name(data)
    with contextlib.suppress(InvalidDer):
        parse_subject(data)
