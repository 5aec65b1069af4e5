"""The processes of the bridge's benchmark: the least of a client, of an agent, and of a relay."""
