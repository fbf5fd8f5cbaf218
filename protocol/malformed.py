"""The one exception that bytes from outside can cause."""


class Malformed(Exception):
    """The bytes are no message of the expected type and version. The text says where and why; the
    connection that sent them is closed."""


class TooManyElements(Malformed):
    """A request has more elements in its arrays than are decoded at once; all of them may be allowed."""


class TooLong(Exception):
    """A message that is being written is longer than it may be."""
