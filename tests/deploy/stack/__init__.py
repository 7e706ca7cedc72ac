"""The stack of deploy/compose.yaml without a container engine, and drills of its failures."""
