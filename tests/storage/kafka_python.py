"""kafka-python's record codec, an independent reader of batches."""

import warnings

with warnings.catch_warnings():
    # Its import uses a function that Python 3.11 deprecates and later versions have again.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch

__all__ = ["DefaultRecordBatch"]
