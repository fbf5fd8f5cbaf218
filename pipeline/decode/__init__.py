"""Decode segments to Arrow, without Spark.

Two decoders return the same rows. `plain` decodes record by record with the daemon's own classes and accepts every
record of a log. `vectorised` decodes the records of many batches at once with NumPy. It leaves unusual records,
such as one with headers or a malformed value, to `plain`.
"""
