"""State of idempotent and transactional producers."""
