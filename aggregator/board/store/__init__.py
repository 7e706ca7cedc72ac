"""Published records in memory: the store, its series of windows, and the states of queries."""
