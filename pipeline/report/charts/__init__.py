"""The plots of the report, each a function from gathered rows to HTML."""
