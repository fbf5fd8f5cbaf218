"""Tokens that nobody has signed: who they are for is what they say. For tests; whoever can connect can make one.

    header:   {"alg":"none"}      claims: {"sub":"alice","exp":1700000000,"iat":1699996400,"scope":["a","b"]}

Source: Kafka's `OAuthBearerUnsecuredValidatorCallbackHandler` and `OAuthBearerUnsecuredJws`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import floor, inf
from typing import Any, Final

from coordinator.security.bearer import INSUFFICIENT_SCOPE, MAX_TIME_MS, InvalidToken, ValidToken, Verdict
from coordinator.security.jws import NotAToken, is_number, parse_jws

_OPTION: Final = "unsecuredValidator"
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_DIGITS: Final = re.compile(r"[+-]?[0-9]+")
_MAX_SKEW_MS: Final = 2**31 - 1


class _Invalid(Exception):
    """Why a token is none. The text says none of it."""


@dataclass(frozen=True, slots=True)
class UnsecuredRules:
    """What is asked of a token."""

    principal_claim_name: str = "sub"
    scope_claim_name: str = "scope"
    required_scope: tuple[str, ...] = ()
    allowable_clock_skew_ms: int = 0


def unsecured_rules(options: Mapping[str, str]) -> UnsecuredRules:
    """The rules that the options of a login module make. Raises ValueError naming the option."""

    def option(name: str, default: str) -> str:
        return options.get(_OPTION + name, "").strip() or default

    scope = tuple(each for each in option("RequiredScope", "").split(" ") if each)
    if not all(_SCOPE.fullmatch(each) for each in scope):
        raise ValueError(f"{_OPTION}RequiredScope has what is no scope")
    skew = option("AllowableClockSkewMs", "0")
    if _DIGITS.fullmatch(skew) is None or not 0 <= int(skew) <= _MAX_SKEW_MS:
        raise ValueError(f"{_OPTION}AllowableClockSkewMs is no number from 0 to {_MAX_SKEW_MS}")
    return UnsecuredRules(
        option("PrincipalClaimName", "sub"), option("ScopeClaimName", "scope"), scope, int(skew)
    )


class UnsecuredTokens:
    """See the top of this file."""

    def __init__(self, rules: UnsecuredRules, wall_ms: Callable[[], int]) -> None:
        """In: the time."""
        self._rules = rules
        self._wall_ms = wall_ms

    def validate(self, token: str) -> Verdict:
        """Judges a token."""
        rules = self._rules
        try:
            jws = parse_jws(token)
            if jws.header.get("alg") != "none":
                raise _Invalid("the algorithm of an unsecured token is not none")
            if jws.signature:
                raise _Invalid("an unsecured token has a signature")
            claims = {name: _as_java(value) for name, value in jws.claims.items()}
            scope = _scope(claims.get(rules.scope_claim_name))
            until_ms = self._until_ms(claims)
            principal = _principal(claims, rules.principal_claim_name)
        except (NotAToken, _Invalid) as problem:
            return InvalidToken(str(problem))
        if not scope.issuperset(rules.required_scope):
            return InvalidToken(
                "the token lacks a scope that is required",
                INSUFFICIENT_SCOPE,
                f"[{', '.join(rules.required_scope)}]",
            )
        return ValidToken(principal, until_ms)

    def _until_ms(self, claims: Mapping[str, Any]) -> int:
        """Until when a token is good that is now."""
        expires, issued = (_time_ms(claims, name) for name in ("exp", "iat"))
        now_ms, skew_ms = self._wall_ms(), self._rules.allowable_clock_skew_ms
        if expires is None:
            raise _Invalid("the token has no exp")
        if issued is not None and issued > now_ms + skew_ms:
            raise _Invalid("the token is from the future (iat)")
        if now_ms - skew_ms >= expires:
            raise _Invalid("the token has expired (exp)")
        if issued is not None and expires <= issued:
            raise _Invalid("the token expires before it was issued (exp, iat)")
        return min(MAX_TIME_MS, floor(min(expires + 0.5, float(MAX_TIME_MS))))


def _as_java(value: Any) -> Any:
    """A claim as Kafka has it: text where it is no number, and of a list each."""
    if isinstance(value, list):
        return [_text(each) for each in value]
    return value if is_number(value) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if is_number(value) else ""


def _scope(claim: Any) -> set[str]:
    if claim is None:
        return set()
    if is_number(claim):
        raise _Invalid("the scope of the token is a number")
    return {each.strip() for each in ([claim] if isinstance(claim, str) else claim) if each.strip()}


def _time_ms(claims: Mapping[str, Any], name: str) -> float | None:
    claim = claims.get(name)
    if claim is None:
        return None
    if not is_number(claim):
        raise _Invalid(f"{name} of the token is no number")
    try:
        return float(claim) * 1000
    except OverflowError:
        return inf if claim > 0 else -inf


def _principal(claims: Mapping[str, Any], name: str) -> str:
    claim = claims.get(name)
    if not isinstance(claim, str) or not claim.strip() or not is_text(claim):
        raise _Invalid("the claim that names the principal is not there, or is no text")
    return claim


def is_text(claim: str) -> bool:
    """Whether a string of JSON can be written down: it may have half a character."""
    return not any("\ud800" <= character <= "\udfff" for character in claim)
