"""Half an hour of real clients that come, go and die; at the end only their commits remain.

    __main__ ─▶ run ─▶ crowd      members, each a process of its own: stock clients that consume and commit
                  ├──▶ visitors   producers, and topics and groups that come and go
                  ├──▶ probe      a sample of the daemon every few seconds: memory, descriptors, waiters, timers
                  └──▶ judge      growth, and leftovers after all clients are gone

The daemon is `forgetful_daemon`: its bounded stores are full before the judge measures.

`promises` holds the acknowledged commits; the run checks them against the daemon at the end.
"""
