"""The demo, with broker, worker, board and simulated clients on one machine."""
