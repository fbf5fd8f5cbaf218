"""Validate tokens that an identity provider has signed: first the signature, then the claims.

    header:   {"alg":"RS256","kid":"key-1"}
    claims:   {"sub":"alice","exp":1700000000,"iat":1699996400,"aud":"kafka","iss":"https://id.example"}

Only keys that the provider publishes verify a signature. The headers `jku`, `jwk`, `x5u` and `x5c`, which name or
embed a key, are ignored. Shared secrets (HMAC) are not accepted.

Source: Kafka's `BrokerJwtValidator`, with the defaults of its library; RFC 7517, RFC 8725.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from coordinator.security.core.oauthbearer import (
    MAX_TIME_MS,
    InvalidJws,
    InvalidToken,
    Jws,
    TokenResult,
    UnknownTokenKey,
    ValidToken,
    is_number,
    is_valid_unicode,
    parse_jws,
)

MAX_KEYS: Final = 1000
_MAX_KEY_ID: Final = 1000
"""A longer key id does not trigger a refresh of the keys."""
_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 16384
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_EDWARDS: Final = "EdDSA"


class _InvalidSignedToken(Exception):
    """The reason why a signed token is rejected. The text contains no part of the token."""


class _UnknownSigningKey(_InvalidSignedToken):
    pass


class VerificationKey(NamedTuple):
    """A public key that verifies signatures."""

    key_id: str | None
    algorithm: str | None
    """The only algorithm of the key; None: any algorithm that fits its type."""
    key: Key


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """The claims that a token with a valid signature must have."""

    audience: frozenset[str] = frozenset()
    """Accepted audiences; empty: any."""
    issuer: str = ""
    """Required issuer; "": any."""
    clock_skew_ms: int = 30_000
    scope_claim_name: str = "scope"
    sub_claim_name: str = "sub"


def parse_jwks(document: bytes) -> list[VerificationKey]:
    """Parse the verification keys of a JWK Set, at least one.

    Keys that are not for signatures, of an unknown type or too weak are left out.

    Raises:
        ValueError: the document is malformed or has no usable key.
    """
    try:
        published = json.loads(document)
    except (ValueError, RecursionError):
        raise ValueError("the document is not JSON") from None
    entries = published.get("keys") if isinstance(published, dict) else None
    if not isinstance(entries, list):
        raise ValueError("the document is not a JSON object with a list of keys")
    if len(entries) > MAX_KEYS:
        raise ValueError(f"the document has {len(entries)} keys, more than {MAX_KEYS}")
    keys = [key for each in entries if (key := _parse_jwk(each)) is not None]
    if not keys:
        raise ValueError(f"none of the {len(entries)} keys of the document can verify signatures")
    return keys


def _parse_jwk(entry: Any) -> VerificationKey | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    if "verify" not in entry.get("key_ops", ("verify",)):
        return None
    public = {name: entry[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in entry}
    try:
        key = JWKRegistry.import_key(public)
        key.get_op_key("verify")
    except (JoseError, ValueError, TypeError, ArithmeticError):
        return None
    if isinstance(key, RSAKey) and not _MIN_RSA_BITS <= key.public_key.key_size <= _MAX_RSA_BITS:
        return None
    if not isinstance(key, RSAKey | ECKey | OKPKey):
        return None
    key_id, algorithm = entry.get("kid"), entry.get("alg")
    return VerificationKey(
        key_id if isinstance(key_id, str) else None,
        algorithm if isinstance(algorithm, str) else None,
        key,
    )


class SignedTokenValidator:
    """Validates signed tokens by the keys and the rules of one listener."""

    def __init__(self, rules: ClaimRules, wall_ms: Callable[[], int]) -> None:
        """`wall_ms` returns the Unix time in milliseconds. Without keys every token is rejected."""
        self._rules = rules
        self._wall_ms = wall_ms
        self.keys: list[VerificationKey] = []
        """The keys that the provider publishes now."""

    def validate(self, token: str) -> TokenResult:
        """Validate a token, and return the result."""
        try:
            jws = parse_jws(token)
            self._verify_signature(jws)
            return self._validate_claims(jws.claims)
        except _UnknownSigningKey as problem:
            return UnknownTokenKey(str(problem))
        except (InvalidJws, _InvalidSignedToken) as problem:
            return InvalidToken(str(problem))

    # Signature

    def _verify_signature(self, jws: Jws) -> None:
        header, algorithm = jws.header, jws.header.get("alg")
        if not isinstance(algorithm, str) or not (
            algorithm in _RSA or algorithm in _CURVES or algorithm == _EDWARDS
        ):
            raise _InvalidSignedToken("the signature algorithm of the token is not accepted")
        if header.get("crit"):
            raise _InvalidSignedToken("the token requires an unsupported extension (crit)")
        key_id = header.get("kid")
        if key_id is not None and not isinstance(key_id, str):
            raise _InvalidSignedToken("kid of the token is not a string")
        key = self._find_key(algorithm, key_id)
        try:
            is_good = JWSRegistry.algorithms[algorithm].verify(jws.signed, jws.signature, key)
        except (JoseError, ValueError, TypeError):
            is_good = False
        if not is_good:
            raise _InvalidSignedToken("the signature of the token is invalid")

    def _find_key(self, algorithm: str, key_id: str | None) -> Key:
        """Return the first key that matches."""
        for each in self.keys:
            if (
                (key_id is None or each.key_id == key_id)
                and each.algorithm in (None, algorithm)
                and _supports_algorithm(each.key, algorithm)
            ):
                return each.key
        missing = "no known key matches the signature of the token"
        raise (
            _InvalidSignedToken(missing)
            if key_id is None or len(key_id) > _MAX_KEY_ID
            else _UnknownSigningKey(missing)
        )

    # Claims

    def _validate_claims(self, claims: Mapping[str, Any]) -> ValidToken:
        rules = self._rules
        expires_s = self._check_times(claims)
        issuer, audience = claims.get("iss"), claims.get("aud")
        for name in ("iss", "sub", "jti"):
            if not isinstance(claims.get(name, ""), str):
                raise _InvalidSignedToken(f"{name} of the token is not a string")
        if rules.issuer and issuer != rules.issuer:
            raise _InvalidSignedToken("the token is from another issuer (iss)")
        if rules.audience and not _has_audience(audience, rules.audience):
            raise _InvalidSignedToken("the token is for another audience (aud)")
        _check_scope(claims.get(rules.scope_claim_name))
        principal = claims.get(rules.sub_claim_name)
        if not isinstance(principal, str) or not principal.strip() or not is_valid_unicode(principal):
            raise _InvalidSignedToken("the claim of the principal's name is missing or not a string")
        return ValidToken(principal.strip(), min(expires_s * 1000, MAX_TIME_MS))

    def _check_times(self, claims: Mapping[str, Any]) -> int:
        """Check the times of a token that is valid now and return its expiry in whole seconds."""
        expires_s, issued_s, begins_s = (_parse_seconds(claims, name) for name in ("exp", "iat", "nbf"))
        now_ms, skew_ms = self._wall_ms(), self._rules.clock_skew_ms
        if expires_s is None or issued_s is None:
            raise _InvalidSignedToken(f"the token has no {'exp' if expires_s is None else 'iat'}")
        if now_ms - skew_ms >= expires_s * 1000:
            raise _InvalidSignedToken("the token has expired (exp)")
        if issued_s < 0 or expires_s < issued_s:
            raise _InvalidSignedToken("the token expires before it was issued (exp, iat)")
        if begins_s is not None and (now_ms + skew_ms < begins_s * 1000 or expires_s < begins_s):
            raise _InvalidSignedToken("the token is not valid yet (nbf)")
        return expires_s


def _supports_algorithm(key: Key, algorithm: str) -> bool:
    if algorithm in _RSA:
        return isinstance(key, RSAKey)
    if algorithm in _CURVES:
        return isinstance(key, ECKey) and key.curve_name == _CURVES[algorithm]
    return isinstance(key, OKPKey)


def _parse_seconds(claims: Mapping[str, Any], name: str) -> int | None:
    claim = claims.get(name)
    if claim is None:
        return None
    if not is_number(claim):
        raise _InvalidSignedToken(f"{name} of the token is not a number")
    try:
        return int(claim)
    except OverflowError:
        raise _InvalidSignedToken(f"{name} of the token is out of range") from None


def _has_audience(audience: Any, expected: frozenset[str]) -> bool:
    if isinstance(audience, str):
        return audience in expected
    if not isinstance(audience, list) or not all(isinstance(each, str) for each in audience):
        return False
    return not expected.isdisjoint(audience)


def _check_scope(claim: Any) -> None:
    """Check that the scope claim, if present, is well formed. No scope is required.

    Raises:
        _InvalidSignedToken: the claim is malformed.
    """
    scopes = claim if isinstance(claim, list) else [claim] if isinstance(claim, str) else []
    names = [each.strip() if isinstance(each, str) else "" for each in scopes]
    if "" in names or len(set(names)) != len(names):
        raise _InvalidSignedToken("the scope of the token has an invalid or duplicate scope")
