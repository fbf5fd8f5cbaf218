"""Regular expressions over names of topics, as Kafka's tools read them. Source: Kafka's `TopicFilter`."""

import re

from coordinator.cli.kafka_tools.tool_errors import UsageError


def compile_include_list(text: str) -> re.Pattern[str]:
    """Return the pattern of an include list: an expression, or several with commas between them. Raises UsageError
    for an invalid expression.

    Java's expressions and Python's agree in what names of topics need.
    """
    cleaned = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return re.compile(cleaned)
    except re.error as error:
        raise UsageError(f"{cleaned} is an invalid regex.") from error
