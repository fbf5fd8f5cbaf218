"""The data plane: topics that real consumers have something to consume from. Synchronous, one call per
request.
"""
