"""Messages of OAUTHBEARER clients and the responses of Kafka's server: python -m tests.security.core.bearer_cases

The command creates new keys and records the responses of Kafka's own classes again. It needs Java, Maven and
some seconds. A case is a dictionary: `name`; `tokens`, the client's messages in base64; for unsecured tokens
`options` of the login module and `now_ms`; for signed ones `properties`. The recording adds the responses as
`steps`, and its first line holds the keys of signed tokens.
"""

import json
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from joserfc.jwk import OctKey

from tests.kafka_log.artifacts import NEWEST, broker
from tests.security.core.tokens import (
    EC,
    ED,
    OTHER_RSA,
    RSA,
    client_first,
    encoded,
    jwks,
    signed,
    signed_with_secret,
    unsecured,
)

RECORDING: Final = Path(__file__).parent / f"bearer-{NEWEST}.jsonl"
NOW_S: Final = 1_700_000_000
FAR_S: Final = 7_000_000_000
"""Signed tokens are judged by the clock of the recording."""
_GOOD: Final = unsecured({"sub": "alice", "exp": NOW_S + 60})
_PUBLIC_PEM: Final = RSA.as_pem(private=False)
_SECRET: Final = b"k" * 32

_MESSAGES: Final[dict[str, bytes]] = {
    "a good one": client_first(_GOOD),
    "with the authorization id of the token": client_first(_GOOD, "alice"),
    "with another authorization id": client_first(_GOOD, "bob"),
    "with an escaped authorization id": client_first(_GOOD, "a=2Cb=3D"),
    "with an authorization id in capitals": client_first(_GOOD, "ALICE"),
    "with a broken escape": client_first(_GOOD, "a=2Db"),
    "with a separator in the authorization id": client_first(_GOOD, "a\x01b"),
    "with an authorization id beyond ASCII": client_first(_GOOD, "\u00e9"),
    "with an empty authorization id": f"n,a=,\x01auth=Bearer {_GOOD}\x01\x01".encode(),
    "with extensions": client_first(_GOOD, "", "traceId=123\x01logicalCluster=a b\tc\x01"),
    "with an extension twice": client_first(_GOOD, "", "a=1\x01a=2\x01"),
    "with an extension of digits": client_first(_GOOD, "", "a1=1\x01"),
    "with an empty extension": client_first(_GOOD, "", "a=\x01"),
    "with an extension without a sign": client_first(_GOOD, "", "a\x01"),
    "with an extension that has signs": client_first(_GOOD, "", "a=b=c\x01"),
    "with an extension beyond ASCII": client_first(_GOOD, "", "a=\u00e9\x01"),
    "auth twice": client_first(_GOOD, "", "auth=Bearer x\x01"),
    "auth behind an extension": f"n,,\x01a=b\x01auth=Bearer {_GOOD}\x01\x01".encode(),
    "no auth": b"n,,\x01a=b\x01\x01",
    "no pairs": b"n,,\x01\x01",
    "empty": b"",
    "one separator": b"\x01",
    "no end": f"n,,\x01auth=Bearer {_GOOD}\x01".encode(),
    "more after the end": client_first(_GOOD) + b"x",
    "another end": client_first(_GOOD) + b"\n",
    "channel binding": f"y,,\x01auth=Bearer {_GOOD}\x01\x01".encode(),
    "channel binding of a kind": f"p=tls-unique,,\x01auth=Bearer {_GOOD}\x01\x01".encode(),
    "scheme in small letters": f"n,,\x01auth=bearer {_GOOD}\x01\x01".encode(),
    "scheme in capitals": f"n,,\x01auth=BEARER {_GOOD}\x01\x01".encode(),
    "another scheme": f"n,,\x01auth=Basic {_GOOD}\x01\x01".encode(),
    "no scheme": f"n,,\x01auth={_GOOD}\x01\x01".encode(),
    "two blanks": f"n,,\x01auth=Bearer  {_GOOD}\x01\x01".encode(),
    "a tab": f"n,,\x01auth=Bearer\t{_GOOD}\x01\x01".encode(),
    "no token": b"n,,\x01auth=Bearer \x01\x01",
    "a token of signs": b"n,,\x01auth=Bearer ==\x01\x01",
    "a token with a sign in the middle": b"n,,\x01auth=Bearer a=b\x01\x01",
    "a token that is padded": client_first(_GOOD + "="),
    "not UTF-8": client_first(_GOOD).replace(b"n,", b"n\xff,"),
    "a token in two lines": client_first(_GOOD + "\n"),
}
_UNSECURED: Final[dict[str, str]] = {
    "two parts": _GOOD.rsplit(".", 1)[0],
    "four parts": f"{_GOOD}.",
    "five parts": f"{_GOOD}a.b.c",
    "a point": ".",
    "two points": "..",
    "a signature": f"{_GOOD}c2ln",
    "no header": f".{_GOOD.split('.')[1]}.",
    "no claims": f"{_GOOD.split('.')[0]}..",
    "no base64": "a~b.c.",
    "plus and slash": "a+/b.c.",
    "one letter": "a.a.",
    "no JSON": f"{encoded('x')}.{encoded('y')}.",
    "a list": f"{_GOOD.split('.')[0]}.{encoded('[1]')}.",
    "a header that is a list": f"{encoded('[1]')}.{_GOOD.split('.')[1]}.",
    "no alg": unsecured({"sub": "alice", "exp": NOW_S + 60}, "{}"),
    "alg None": unsecured({"sub": "alice", "exp": NOW_S + 60}, '{"alg":"None"}'),
    "alg null": unsecured({"sub": "alice", "exp": NOW_S + 60}, '{"alg":null}'),
    "alg a number": unsecured({"sub": "alice", "exp": NOW_S + 60}, '{"alg":1}'),
    "alg RS256": unsecured({"sub": "alice", "exp": NOW_S + 60}, '{"alg":"RS256"}'),
    "signed": signed(RSA, {"sub": "alice", "exp": FAR_S, "iat": 1}),
    "a name twice": unsecured(f'{{"sub":"alice","exp":{NOW_S + 60},"sub":"bob"}}'),
    "more after the JSON": unsecured(f'{{"sub":"alice","exp":{NOW_S + 60}}} x'),
    "NaN": unsecured('{"sub":"alice","exp":NaN}'),
    "half a character": unsecured(f'{{"sub":"\\ud800","exp":{NOW_S + 60}}}'),
    "deep": unsecured(f'{{"sub":"alice","exp":{NOW_S + 60},"a":{"[" * 2000}{"]" * 2000}}}'),
    "a great number": unsecured(f'{{"sub":"alice","exp":{"9" * 500}}}'),
    "a greater number": unsecured(f'{{"sub":"alice","exp":{"9" * 5000}}}'),
}
_UNSECURED_CLAIMS: Final[dict[str, dict[str, Any]]] = {
    "no sub": {"exp": NOW_S + 60},
    "sub empty": {"sub": "", "exp": NOW_S + 60},
    "sub blank": {"sub": " ", "exp": NOW_S + 60},
    "sub with blanks": {"sub": " alice ", "exp": NOW_S + 60},
    "sub beyond ASCII": {"sub": "J\u00fcrgen \U0001f600", "exp": NOW_S + 60},
    "sub with a line's end": {"sub": "a\nb\0c", "exp": NOW_S + 60},
    "sub a number": {"sub": 5, "exp": NOW_S + 60},
    "sub null": {"sub": None, "exp": NOW_S + 60},
    "sub true": {"sub": True, "exp": NOW_S + 60},
    "sub a list": {"sub": ["alice"], "exp": NOW_S + 60},
    "sub an object": {"sub": {"a": "b"}, "exp": NOW_S + 60},
    "no exp": {"sub": "alice"},
    "exp a string": {"sub": "alice", "exp": str(NOW_S + 60)},
    "exp null": {"sub": "alice", "exp": None},
    "exp true": {"sub": "alice", "exp": True},
    "exp now": {"sub": "alice", "exp": NOW_S},
    "exp in a moment": {"sub": "alice", "exp": NOW_S + 0.001},
    "exp a moment ago": {"sub": "alice", "exp": NOW_S - 0.001},
    "exp in half a moment": {"sub": "alice", "exp": NOW_S + 0.0005},
    "exp below zero": {"sub": "alice", "exp": -1},
    "exp of a great while": {"sub": "alice", "exp": 10**15},
    "exp of the greatest while": {"sub": "alice", "exp": 1e300},
    "iat now": {"sub": "alice", "exp": NOW_S + 60, "iat": NOW_S},
    "iat later": {"sub": "alice", "exp": NOW_S + 60, "iat": NOW_S + 1},
    "iat a string": {"sub": "alice", "exp": NOW_S + 60, "iat": "1"},
    "iat null": {"sub": "alice", "exp": NOW_S + 60, "iat": None},
    "iat below zero": {"sub": "alice", "exp": NOW_S + 60, "iat": -5},
    "nbf later": {"sub": "alice", "exp": NOW_S + 60, "nbf": NOW_S + 30},
    "scope a string": {"sub": "alice", "exp": NOW_S + 60, "scope": "a"},
    "scope two in a string": {"sub": "alice", "exp": NOW_S + 60, "scope": "a b"},
    "scope a list": {"sub": "alice", "exp": NOW_S + 60, "scope": ["b", " a "]},
    "scope a list of numbers": {"sub": "alice", "exp": NOW_S + 60, "scope": [1, None, True, {}]},
    "scope a number": {"sub": "alice", "exp": NOW_S + 60, "scope": 1},
    "scope null": {"sub": "alice", "exp": NOW_S + 60, "scope": None},
    "scope an object": {"sub": "alice", "exp": NOW_S + 60, "scope": {"a": 1}},
    "scope of another name": {"sub": "alice", "exp": NOW_S + 60, "scp": ["a", "b"], "name": "bob"},
}
_OPTIONS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("", {}),
    ("scope", {"unsecuredValidatorRequiredScope": "a"}),
    ("scope", {"unsecuredValidatorRequiredScope": " b  a "}),
    (
        "scope",
        {"unsecuredValidatorPrincipalClaimName": "name", "unsecuredValidatorScopeClaimName": " scp "},
    ),
    (
        "scope of another",
        {"unsecuredValidatorRequiredScope": "a b", "unsecuredValidatorScopeClaimName": "scp"},
    ),
    ("exp", {"unsecuredValidatorAllowableClockSkewMs": "1000"}),
    ("iat", {"unsecuredValidatorAllowableClockSkewMs": "1000"}),
    ("sub", {"unsecuredLoginStringClaim_sub": "admin", "unsecuredValidatorPrincipalClaimName": " "}),
)
"""Options of the login module, each with how the names of the claims begin that are judged by them."""
_ANYBODY: Final = {
    "sasl.oauthbearer.allow.unverified.audience": "true",
    "sasl.oauthbearer.allow.unverified.issuer": "true",
}
_EXPECTED: Final = {
    "sasl.oauthbearer.expected.audience": "groupd,kafka",
    "sasl.oauthbearer.expected.issuer": "https://id.example",
}
_NAMED: Final = {
    **_ANYBODY,
    "sasl.oauthbearer.scope.claim.name": "scp",
    "sasl.oauthbearer.sub.claim.name": "name",
    "sasl.oauthbearer.clock.skew.seconds": "0",
}
_PROPERTIES: Final = (("", _ANYBODY), ("aud", _EXPECTED), ("iss", _EXPECTED), ("of", _NAMED))
"""Name parts with the expected values of the claims that each property checks."""
_OK: Final = {"sub": "alice", "exp": FAR_S, "iat": 1}
_SIGNED_CLAIMS: Final[dict[str, dict[str, Any]]] = {
    "good": _OK,
    "no sub": {"exp": FAR_S, "iat": 1},
    "sub empty": {**_OK, "sub": ""},
    "sub blank": {**_OK, "sub": " "},
    "sub with blanks": {**_OK, "sub": " alice "},
    "sub a number": {**_OK, "sub": 5},
    "sub null": {**_OK, "sub": None},
    "no exp": {"sub": "alice", "iat": 1},
    "exp a string": {**_OK, "exp": str(FAR_S)},
    "exp null": {**_OK, "exp": None},
    "exp a fraction": {**_OK, "exp": FAR_S + 0.75},
    "expired": {**_OK, "exp": 1000},
    "exp below zero": {**_OK, "exp": -1},
    "exp before iat": {**_OK, "iat": FAR_S + 1},
    "no iat": {"sub": "alice", "exp": FAR_S},
    "iat a string": {**_OK, "iat": "1"},
    "iat later": {**_OK, "iat": FAR_S - 1},
    "iat below zero": {**_OK, "iat": -1},
    "nbf before": {**_OK, "nbf": 1},
    "nbf later": {**_OK, "nbf": FAR_S - 1},
    "nbf a string": {**_OK, "nbf": "1"},
    "jti a number": {**_OK, "jti": 1},
    "scope a string": {**_OK, "scope": "a b"},
    "scope empty": {**_OK, "scope": ""},
    "scope a list": {**_OK, "scope": ["a", "b"]},
    "scope twice": {**_OK, "scope": ["a", " a "]},
    "scope with a blank one": {**_OK, "scope": ["a", " "]},
    "scope of numbers": {**_OK, "scope": [1]},
    "scope an empty list": {**_OK, "scope": []},
    "scope a number": {**_OK, "scope": 5},
    "of other names": {**_OK, "scp": ["a"], "name": "bob"},
    "a scope of another name that is bad": {**_OK, "scp": "", "name": "bob"},
    "aud one": {**_OK, "aud": "groupd", "iss": "https://id.example"},
    "aud a list": {**_OK, "aud": ["x", "kafka"], "iss": "https://id.example"},
    "aud another": {**_OK, "aud": "x", "iss": "https://id.example"},
    "aud a number": {**_OK, "aud": 5, "iss": "https://id.example"},
    "aud a list of numbers": {**_OK, "aud": [5, "groupd"], "iss": "https://id.example"},
    "no aud": {**_OK, "iss": "https://id.example"},
    "iss another": {**_OK, "aud": "groupd", "iss": "https://id.example/"},
    "iss a number": {**_OK, "aud": "groupd", "iss": 5},
    "no iss": {**_OK, "aud": "groupd"},
}
_SIGNED: Final[dict[str, str]] = {
    "PS256": signed(RSA, _OK, "PS256"),
    "RS512": signed(RSA, _OK, "RS512"),
    "ES256": signed(EC, _OK, "ES256"),
    "EdDSA": signed(ED, _OK, "EdDSA"),
    "no kid": signed(RSA, _OK, kid=None),
    "no kid, ES256": signed(EC, _OK, "ES256", kid=None),
    "unknown kid": signed(RSA, _OK, kid="other"),
    "kid of another kind": signed(RSA, _OK, kid="ec"),
    "kid a number": signed(RSA, _OK, kid=5),
    "signed by another": signed(OTHER_RSA, _OK),
    "typ and more in the header": signed(RSA, _OK, typ="at+jwt", tenant="x", x5t="y"),
    "jku": signed(OTHER_RSA, _OK, jku="http://127.0.0.1:1/keys", kid="new"),
    "jwk": signed(OTHER_RSA, _OK, jwk=OTHER_RSA.as_dict(private=False)),
    "crit": signed(RSA, _OK, crit=["b64"], b64=False),
    "crit of its own": signed(RSA, _OK, crit=["x"], x=1),
    "crit empty": signed(RSA, _OK, crit=[]),
    "none": unsecured(_OK),
    "none with a signature": unsecured(_OK, signature="c2ln"),
    "HMAC with the public key": signed_with_secret(_PUBLIC_PEM, "rsa", _OK),
    "HMAC with a key that is there": signed_with_secret(_SECRET, "oct", _OK),
    "changed claims": ".".join(
        each if number != 1 else encoded(json.dumps({**_OK, "sub": "bob"}))
        for number, each in enumerate(signed(RSA, _OK).split("."))
    ),
    "no signature": signed(RSA, _OK).rsplit(".", 1)[0] + ".",
    "half a signature": signed(RSA, _OK)[:-100],
    "four parts": f"{signed(RSA, _OK)}.",
    "claims that are no JSON": signed(RSA, "x"),
    "claims that are a list": signed(RSA, "[1]"),
    "a name twice": signed(RSA, f'{{"sub":"alice","exp":{FAR_S},"iat":1,"sub":"bob"}}'),
    "no token": "a",
}


def questions() -> Iterator[dict[str, Any]]:
    """The cases without their steps."""

    def case(name: str, *sent: bytes, options: dict[str, str] | None = None) -> dict[str, Any]:
        tokens = [b64encode(each).decode() for each in sent]
        return {"name": name, "options": options or {}, "now_ms": NOW_S * 1000, "tokens": tokens}

    for name, message in _MESSAGES.items():
        yield case(name, message)
    bad = client_first("x.y.z")
    yield case("an invalid token, understood", bad, b"\x01")
    yield case("an invalid token, then nothing", bad, b"")
    yield case("an invalid token, then another", bad, bad, b"\x01\x01")
    yield case("an invalid token, then a good one", bad, client_first(_GOOD))
    for name, token in _UNSECURED.items():
        yield case(name, client_first(token))
    for which, options in _OPTIONS:
        for name, claims in _UNSECURED_CLAIMS.items():
            if name.startswith(which):
                yield case(name, client_first(unsecured(claims)), b"\x01", options=options)
    yield from _signed_questions()


def _signed_questions() -> Iterator[dict[str, Any]]:
    def case(name: str, token: str, properties: dict[str, str] = _ANYBODY) -> dict[str, Any]:
        sent = [client_first(token), b"\x01"]
        tokens = [b64encode(each).decode() for each in sent]
        return {"name": name, "properties": properties, "tokens": tokens}

    for which, properties in _PROPERTIES:
        for name, claims in _SIGNED_CLAIMS.items():
            if which in name:
                yield case(name, signed(RSA, claims), properties)
    for name, token in _SIGNED.items():
        yield case(name, token)


def recorded() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The keys of signed tokens, and each case with its steps."""
    keys, *cases = [json.loads(line) for line in RECORDING.read_text(encoding="utf-8").splitlines()]
    return keys, cases


def main() -> None:
    """Writes the recording."""
    command = [*broker(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "BearerTokens"]
    asked = list(questions())
    keys = jwks(RSA, EC, ED, OctKey.import_key(_SECRET, {"kid": "oct"}))
    lines = ({**each, "jwks": keys} if "properties" in each else each for each in asked)
    done = subprocess.run(
        command,
        input="".join(f"{json.dumps(line)}\n" for line in lines),
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    cases = [{**question, "steps": steps} for question, steps in zip(asked, answers, strict=True)]
    RECORDING.write_text("".join(f"{json.dumps(each)}\n" for each in [keys, *cases]), encoding="utf-8")
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main()
