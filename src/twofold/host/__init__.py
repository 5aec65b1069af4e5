"""What clients, a server and the commands share: settings, known agents, and hosted sessions."""
