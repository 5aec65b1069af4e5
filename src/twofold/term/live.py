"""What is on the move on the screen, and what goes to the scrollback."""
