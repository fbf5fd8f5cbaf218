"""From the bytes of a segment to Arrow: no Spark in here.

Two decoders give the same rows. `plain` decodes record by record with the daemon's own classes and takes
everything that can lie in a log. `vectorised` decodes the records of many batches at once with NumPy; what is
not written in the common form (headers on a record, a value that does not parse) it leaves to `plain`.
"""
