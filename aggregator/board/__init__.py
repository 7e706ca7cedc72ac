"""The read side: what the topics say, kept in memory, told over HTTP and shown on a live page."""
