"""Tokens of OAUTHBEARER, made as an identity provider makes them, and as nobody should."""

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
"""That of somebody else, who says that it is the same."""


def jwks(*keys: Key) -> dict[str, Any]:
    """What an identity provider publishes."""
    return {"keys": [key.as_dict(private=isinstance(key, OctKey)) for key in keys]}


def encoded(data: bytes | str) -> str:
    raw = data.encode() if isinstance(data, str) else data
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(key: Key, claims: dict[str, Any] | str, alg: str = "RS256", **header: Any) -> str:
    """A token. In: what else its header says; `kid=None` leaves that of the key out."""
    says = {"alg": alg, "kid": key.kid, **header}
    text = json.dumps({name: value for name, value in says.items() if value is not None})
    content = f"{encoded(text)}.{encoded(claims if isinstance(claims, str) else json.dumps(claims))}"
    signature = JWSRegistry.algorithms[alg].sign(content.encode(), key)
    return f"{content}.{encoded(signature)}"


def signed_with_secret(secret: bytes, kid: str, claims: dict[str, Any]) -> str:
    """A token by HMAC, of which who can verify it can make more. In: whatever serves for a secret."""
    header = json.dumps({"alg": "HS256", "kid": kid})
    content = f"{encoded(header)}.{encoded(json.dumps(claims))}"
    return f"{content}.{encoded(hmac.digest(secret, content.encode(), 'sha256'))}"


def unsecured(claims: dict[str, Any] | str, header: str = '{"alg":"none"}', signature: str = "") -> str:
    """A token that nobody has signed."""
    text = claims if isinstance(claims, str) else json.dumps(claims)
    return f"{encoded(header)}.{encoded(text)}.{signature}"


def client_first(token: str, authorization_id: str = "", extensions: str = "") -> bytes:
    """What a client says first. In: extensions as they are on the wire."""
    authorization = f"a={authorization_id}" if authorization_id else ""
    return f"n,{authorization},\x01auth=Bearer {token}\x01{extensions}\x01".encode()
