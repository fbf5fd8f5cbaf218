"""Authorizer, principals, SASL mechanisms and tokens, compared with recordings of Kafka's classes."""
