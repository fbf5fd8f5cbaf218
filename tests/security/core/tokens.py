"""OAUTHBEARER tokens, as an identity provider creates them and malformed ones."""

import hmac
import json
from base64 import urlsafe_b64encode
from typing import Any, Final

from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

RSA: Final = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
EC: Final = ECKey.generate_key("P-256", {"kid": "ec"})
ED: Final = OKPKey.generate_key("Ed25519", {"kid": "ed"})
OTHER_RSA: Final = RSAKey.generate_key(2048, {"kid": "rsa"})
"""A foreign key with the same key id."""


def jwks(*keys: Key) -> dict[str, Any]:
    """What an identity provider publishes."""
    return {"keys": [key.as_dict(private=isinstance(key, OctKey)) for key in keys]}


def encoded(data: bytes | str) -> str:
    raw = data.encode() if isinstance(data, str) else data
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(key: Key, claims: dict[str, Any] | str, alg: str = "RS256", **header: Any) -> str:
    """Return a signed token; `header` adds header fields, and `kid=None` omits the key id."""
    says = {"alg": alg, "kid": key.kid, **header}
    text = json.dumps({name: value for name, value in says.items() if value is not None})
    content = f"{encoded(text)}.{encoded(claims if isinstance(claims, str) else json.dumps(claims))}"
    signature = JWSRegistry.algorithms[alg].sign(content.encode(), key)
    return f"{content}.{encoded(signature)}"


def signed_with_secret(secret: bytes, kid: str, claims: dict[str, Any]) -> str:
    """Return a token signed by HMAC, with any bytes as secret: its verifier could forge tokens."""
    header = json.dumps({"alg": "HS256", "kid": kid})
    content = f"{encoded(header)}.{encoded(json.dumps(claims))}"
    return f"{content}.{encoded(hmac.digest(secret, content.encode(), 'sha256'))}"


def unsecured(claims: dict[str, Any] | str, header: str = '{"alg":"none"}', signature: str = "") -> str:
    """Return an unsigned token."""
    text = claims if isinstance(claims, str) else json.dumps(claims)
    return f"{encoded(header)}.{encoded(text)}.{signature}"


def client_first(token: str, authorization_id: str = "", extensions: str = "") -> bytes:
    """Return the client's first message; `extensions` are in wire form."""
    authorization = f"a={authorization_id}" if authorization_id else ""
    return f"n,{authorization},\x01auth=Bearer {token}\x01{extensions}\x01".encode()
