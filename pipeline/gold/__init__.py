"""Gold tables: what silver means. Each is a pure function from DataFrames to a DataFrame, one to a file.

A group's records all lie in one partition of the offsets log, so its history has a total order: that of
(log_partition, log_offset). Every question of before and after is asked of this order. Clocks only measure how
long something took.
"""
