"""The read side: what the topics say, kept in memory, told over HTTP and shown on a live page.

A request's way: guard, route, parameters, lookup, view, answers, rows, reply.
A record's way: follower, entry, store, events.
"""
