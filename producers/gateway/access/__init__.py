"""Access to the gateway, by token, address and origin, and its limits."""
