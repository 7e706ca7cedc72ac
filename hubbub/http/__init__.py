"""HTTP for the gateway, the board and the metrics."""
