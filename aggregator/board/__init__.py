"""The board, which keeps the published topics in memory and serves them over HTTP and on a live page.

A request passes these modules: guard, route, parameters, lookup, view, answers, rows, reply.
A record passes these modules: follower, entry, store, events.
"""
