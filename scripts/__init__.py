"""Programs for the development of the project. They are not installed with it."""
