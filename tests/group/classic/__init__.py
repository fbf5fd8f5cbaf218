"""Classic groups, request by request."""
