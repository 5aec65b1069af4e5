"""The messages of both versions: a struct for every JSON object of the protocol, and the codec."""
