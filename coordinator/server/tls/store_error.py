"""Why a key store or a truststore cannot be used."""


class StoreError(Exception):
    """The text names the property and says what to do, in one line and without a secret."""
