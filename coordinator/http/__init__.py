"""The HTTP port: the page for browsers, health checks, metrics and the API."""
