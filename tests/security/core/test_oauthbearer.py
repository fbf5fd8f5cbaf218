"""OAUTHBEARER without sockets: groupd sends the responses of Kafka's server, and accepts no invalid token."""

import asyncio
import json
import random
from base64 import b64decode
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.security.core.oauthbearer import (
    BearerServer,
    InvalidClientFirst,
    InvalidToken,
    UnknownTokenKey,
    UnsecuredTokenValidator,
    ValidToken,
    parse_client_first,
    parse_unsecured_rules,
)
from coordinator.security.core.sasl_mechanisms import (
    Authenticated,
    AuthenticationRefused,
    Challenge,
    PendingStep,
    SaslStep,
)
from coordinator.security.core.signed_token import ClaimRules, SignedTokenValidator, parse_jwks
from tests.security.core.bearer_cases import questions, recorded
from tests.security.core.tokens import EC, ED, OTHER_RSA, RSA, client_first, encoded, jwks, signed, unsecured

JUDGED_MS: Final = 1_800_000_000_000
"""When signed tokens of the recording are judged."""
REFUSED_HERE: Final = {
    "a name twice": "no two readers agree which of them counts",
    "more after the JSON": "it is no JSON",
    "half a character": "it is no text: Kafka's principal is called ?",
    "HMAC with a key that is there": "whoever can verify such a token can make one",
}
"""Cases that Kafka lets in and groupd does not."""
KEYS, CASES = recorded()


def test_kafka_was_asked_everything() -> None:
    asked = [(case["name"], case.get("options"), case.get("properties")) for case in CASES]
    expected = [(case["name"], case.get("options"), case.get("properties")) for case in questions()]
    assert asked == expected, "record again: python -m tests.security.core.bearer_cases"
    outcomes = [name for case in CASES for name in case["steps"][0]]
    assert min(outcomes.count(name) for name in ("principal", "challenge", "refused")) > 10


def server_of(case: dict[str, Any]) -> BearerServer:
    if "options" in case:
        unsecured_tokens = UnsecuredTokenValidator(
            parse_unsecured_rules(case["options"]), lambda: case["now_ms"]
        )
        return BearerServer(unsecured_tokens.validate, lambda: case["now_ms"])
    properties = {name.removeprefix("sasl.oauthbearer."): value for name, value in case["properties"].items()}
    rules = ClaimRules(
        frozenset(filter(None, properties.get("expected.audience", "").split(","))),
        properties.get("expected.issuer", ""),
        int(properties.get("clock.skew.seconds", "30")) * 1000,
        properties.get("scope.claim.name", "scope"),
        properties.get("sub.claim.name", "sub"),
    )
    tokens = SignedTokenValidator(rules, lambda: JUDGED_MS)
    tokens.keys = parse_jwks(json.dumps(KEYS).encode())
    return BearerServer(tokens.validate, lambda: JUDGED_MS)


def in_words(step: SaslStep, now_ms: int) -> dict[str, Any]:
    match step:
        case Challenge(challenge):
            return {"challenge": challenge.decode()}
        case Authenticated(name, b"", int(lifetime_ms)):
            return {"principal": name, "until_ms": lifetime_ms + now_ms}
        case AuthenticationRefused(_, message):
            return {"refused": message}
    raise AssertionError(step)


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['name']} {case.get('options', case.get('properties'))}"[:100]
)
def test_kafkas_answers_are_given(case: dict[str, Any]) -> None:
    server = server_of(case)
    now_ms = case.get("now_ms", JUDGED_MS)
    for token, expected in zip(case["tokens"], case["steps"], strict=True):
        answer = in_words(server.evaluate_response(b64decode(token)), now_ms)
        if "fails" in expected:
            assert answer in ({"challenge": '{"status":"invalid_token"}'}, {"refused": None})
            return
        if case["name"] in REFUSED_HERE and "principal" in expected:
            assert answer == {"challenge": '{"status":"invalid_token"}'}
            return
        assert answer == expected
        if "challenge" not in answer:
            return


def good_claims(**more: Any) -> dict[str, Any]:
    return {"sub": "alice", "exp": JUDGED_MS // 1000 + 60, "iat": JUDGED_MS // 1000, **more}


def tokens_of(*keys: Any, rules: ClaimRules | None = None) -> SignedTokenValidator:
    found = SignedTokenValidator(rules or ClaimRules(), lambda: JUDGED_MS)
    found.keys = parse_jwks(json.dumps(jwks(*keys)).encode())
    return found


@pytest.mark.parametrize(("alg", "key"), [("RS256", RSA), ("PS384", RSA), ("ES256", EC), ("EdDSA", ED)])
def test_a_token_is_good_for_who_it_says_until_it_says(alg: str, key: Any) -> None:
    verdict = tokens_of(RSA, EC, ED).validate(signed(key, good_claims(), alg))
    assert verdict == ValidToken("alice", JUDGED_MS + 60_000)


@pytest.mark.parametrize(
    ("seconds", "is_good"),
    [({"exp": -29}, True), ({"exp": -30}, False), ({"nbf": 30}, True), ({"nbf": 31}, False)],
)
def test_clocks_may_differ_by_the_skew(seconds: dict[str, int], is_good: bool) -> None:
    at = {name: JUDGED_MS // 1000 + value for name, value in seconds.items()}
    verdict = tokens_of(RSA).validate(signed(RSA, good_claims(iat=1, **at)))
    assert isinstance(verdict, ValidToken) is is_good


def test_a_key_that_says_what_it_is_for_is_for_that_alone() -> None:
    def judged(**says: Any) -> list[type[object]]:
        entry = {**RSA.as_dict(private=False), **says}
        tokens = SignedTokenValidator(ClaimRules(), lambda: JUDGED_MS)
        tokens.keys = parse_jwks(json.dumps({"keys": [entry, EC.as_dict(private=False)]}).encode())
        found = (tokens.validate(signed(RSA, good_claims(), alg)) for alg in ("RS256", "PS256"))
        return [type(each) for each in found]

    assert judged() == [ValidToken, ValidToken]
    assert judged(alg="RS256") == [ValidToken, UnknownTokenKey]
    assert judged(use="enc") == [UnknownTokenKey, UnknownTokenKey]
    assert judged(use="sig", key_ops=["verify"]) == [ValidToken, ValidToken]
    assert judged(key_ops=["encrypt"]) == [UnknownTokenKey, UnknownTokenKey]


@pytest.mark.parametrize(
    ("document", "word"),
    [
        (b"", "JSON"),
        (b"\xff", "JSON"),
        (b"[" * 100_000, "JSON"),
        (b"{}", "keys"),
        (b'{"keys":{}}', "keys"),
        (b'{"keys":[]}', "none of the 0"),
        (
            b'{"keys":[5,{},{"kty":"x"},{"kty":"RSA"},{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":[]}]}',
            "none of the 6",
        ),
        (b'{"keys":[{"kty":"oct","k":"a2V5"}]}', "none of the 1"),
        (b'{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}', "none of the 1"),
        (b'{"keys":[' + b"{}," * 1000 + b"{}]}", "1001"),
    ],
)
def test_what_has_no_keys_is_refused_with_a_reason(document: bytes, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        parse_jwks(document)


def test_a_key_that_is_not_there_is_waited_for_once() -> None:
    tokens = tokens_of(EC)

    async def nothing() -> None: ...

    async def it() -> None:
        tokens.keys = parse_jwks(json.dumps(jwks(RSA)).encode())

    def judged(reads: Any, token: str) -> dict[str, Any]:
        step = BearerServer(tokens.validate, lambda: JUDGED_MS, reads).evaluate_response(client_first(token))
        assert isinstance(step, PendingStep)
        return in_words(asyncio.run(step.wait()), JUDGED_MS)

    token = signed(RSA, good_claims())
    assert judged(nothing, token) == {"challenge": '{"status":"invalid_token"}'}
    assert judged(it, token) == {"principal": "alice", "until_ms": JUDGED_MS + 60_000}


def test_no_token_is_waited_for_whose_key_would_not_help() -> None:
    tokens = tokens_of(RSA)
    good = signed(RSA, good_claims())
    others = (signed(OTHER_RSA, good_claims()), signed(EC, good_claims(), "ES256", kid=None), unsecured({}))
    assert [type(tokens.validate(each)) for each in (good, *others)] == [ValidToken, *[InvalidToken] * 3]
    assert isinstance(tokens.validate(signed(EC, good_claims(), "ES256", kid="x" * 1001)), InvalidToken)
    assert isinstance(tokens.validate(signed(EC, good_claims(), "ES256")), UnknownTokenKey)


@pytest.mark.parametrize("make", [lambda: signed(RSA, good_claims()), lambda: unsecured(good_claims())])
def test_no_change_of_a_token_lets_somebody_else_in_and_nothing_is_raised(make: Any) -> None:
    good = make()
    choice = random.Random(7)
    tokens = (
        tokens_of(RSA)
        if not good.endswith(".")
        else UnsecuredTokenValidator(parse_unsecured_rules({}), lambda: JUDGED_MS)
    )
    letters = "".join(chr(number) for number in range(0x21, 0x7F))
    changed = [good[:length] for length in range(len(good))]
    for _ in range(3000):
        at = choice.randrange(len(good))
        changed.append(good[:at] + choice.choice(letters) + good[at + choice.randrange(2) :])
    for each in changed:
        verdict = tokens.validate(each)
        if isinstance(verdict, ValidToken) and isinstance(tokens, SignedTokenValidator):
            # Bits of the last letter that stand for nothing may differ.
            assert each.split(".")[:2] == good.split(".")[:2]
            assert verdict.principal == "alice"


def test_a_message_that_is_longer_than_any_token_is_refused() -> None:
    server = BearerServer(
        UnsecuredTokenValidator(parse_unsecured_rules({}), lambda: JUDGED_MS).validate, lambda: JUDGED_MS
    )
    longest = unsecured(good_claims(more="x" * 48_000))
    assert isinstance(server.evaluate_response(client_first(longest)), Authenticated)
    longer = unsecured(good_claims(more="x" * 50_000))
    assert isinstance(server.evaluate_response(client_first(longer)), AuthenticationRefused)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: client_first(text)))
def test_whatever_a_client_says_is_answered(message: bytes) -> None:
    server = BearerServer(
        UnsecuredTokenValidator(parse_unsecured_rules({}), lambda: JUDGED_MS).validate, lambda: JUDGED_MS
    )
    assert isinstance(server.evaluate_response(message), Challenge | AuthenticationRefused)
    try:
        first = parse_client_first(message)
    except InvalidClientFirst:
        return
    assert first.token.encode() in message
    assert client_first(first.token)


@settings(max_examples=25)
@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5)
)
def test_whatever_a_claim_is_the_token_is_judged(value: Any) -> None:
    for name in ("sub", "exp", "iat", "nbf", "scope", "aud", "iss", "jti", "alg", "kid", "crit"):
        claims = good_claims(**{name: value})
        header = json.dumps({"alg": "none", name: value})
        for token in (unsecured(claims), unsecured(claims, header), signed(EC, claims, "ES256")):
            tokens_of_all = (tokens_of(EC, rules=ClaimRules(frozenset({"a"}), "b")), tokens_of(EC))
            for each in tokens_of_all:
                each.validate(token)
            UnsecuredTokenValidator(parse_unsecured_rules({}), lambda: JUDGED_MS).validate(token)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"unsecuredValidatorAllowableClockSkewMs": "x"}, "AllowableClockSkewMs"),
        ({"unsecuredValidatorAllowableClockSkewMs": "-1"}, "AllowableClockSkewMs"),
        ({"unsecuredValidatorAllowableClockSkewMs": "99999999999"}, "AllowableClockSkewMs"),
        ({"unsecuredValidatorRequiredScope": 'a "b"'}, "RequiredScope"),
    ],
)
def test_options_that_make_no_rules_are_named(options: dict[str, str], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        parse_unsecured_rules(options)


def test_no_secret_is_shown() -> None:
    token = signed(RSA, good_claims())
    first = parse_client_first(client_first(token))
    secret = encoded(json.dumps(good_claims()))[:20]
    assert secret in first.token
    verdict = tokens_of(RSA).validate(token + "x")
    assert secret not in f"{first!r} {verdict!r}"
