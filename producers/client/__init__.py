"""The client on a device, its store and its key."""
