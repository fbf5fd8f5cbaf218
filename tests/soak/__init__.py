"""Half an hour of real clients that come, go and die, and what has to be left of them: nothing but their commits.

    __main__ ─▶ run ─▶ crowd      members, each a process of its own: stock clients that consume and commit
                  ├──▶ visitors   producers, and topics and groups that come and go
                  ├──▶ probe      a look at the daemon every few seconds: memory, descriptors, waiters, timers
                  └──▶ judge      flat or not, and what is left when everybody is gone

The daemon is `forgetful_daemon`: what it keeps up to a bound has reached it before anything is judged.

`promises` knows what was acknowledged to whom; in the end the daemon is asked for it.
"""
