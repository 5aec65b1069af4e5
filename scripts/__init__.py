"""What is made from the project, and not a part of it."""
