"""Groups as people are shown them, and what may be asked of one."""
