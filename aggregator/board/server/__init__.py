"""Moving parts of the board: the port with its routes and events, the follower of the topics, and the metrics."""
