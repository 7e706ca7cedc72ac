"""How a process lives: its logs, its health, its metrics, its end."""
