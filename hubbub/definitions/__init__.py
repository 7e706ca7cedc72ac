"""The definitions of the queries: their versions, their topic, and the query file that changes them."""
