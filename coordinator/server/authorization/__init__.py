"""What each API asks of an authorizer, and what whoever is refused sees."""
