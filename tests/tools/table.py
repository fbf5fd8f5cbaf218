"""What the tools print, as data."""

import re

Row = dict[str, str]
_COORDINATOR = re.compile(r"(\S+:\d+) +\((\d+)\)")


def rows(printed: str, first: str = "GROUP") -> list[Row]:
    """Return the rows of the tables in a tool's output, each by column name.

    `first` is the first column's name, which identifies a heading. Other lines (warnings, errors) are left out.
    """
    names: list[str] = []
    found = []
    for line in printed.splitlines():
        cells = _COORDINATOR.sub(r"\1(\2)", line).replace("COORDINATOR (ID)", "COORDINATOR").split()
        if not cells:
            continue
        if cells[0] == first:
            names = cells
        elif len(cells) == len(names):
            found.append(dict(zip(names, cells, strict=True)))
    return found


def fields(line: str) -> Row:
    """The fields of a line such as `Topic: orders\\tPartitionCount: 3`."""
    pairs = (field.partition(":") for field in line.strip().split("\t") if field.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}
