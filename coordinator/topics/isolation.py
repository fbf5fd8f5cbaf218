"""How much of transactions a consumer wants to see: the `isolation_level` of Fetch and ListOffsets (KIP-98)."""

from typing import Final

READ_COMMITTED: Final = 1
"""What is committed, up to the last stable offset; any other level is everything up to the high watermark."""
