"""What must not happen in groups, watched for all the time: one small class for each oracle.

`oracles.py` puts them together; what they find is a `Violation`, kept in `violations.py`.
"""
