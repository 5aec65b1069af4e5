"""The only part that waits: transports, peers, clients and agents."""
