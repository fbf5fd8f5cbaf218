"""What goes wrong for a reason that lies outside the pipeline."""


class BadInput(Exception):
    """Something given cannot be used. The text is one line that names the path, and the position if there is
    one; the command ends with exit code 2.
    """
