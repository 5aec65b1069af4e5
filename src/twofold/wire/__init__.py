"""What peers say: a struct for every JSON object of the protocol, and the codec."""
