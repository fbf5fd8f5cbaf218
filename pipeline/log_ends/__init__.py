"""Where the logs of consumed topics end, which the offsets log does not say: the second half of lag.

Three sources: the topic logs in a broker's own directory, a live cluster, and a file. The first two also know
where a log ended at earlier times, from the times of its messages, so that lag has a history.
"""
