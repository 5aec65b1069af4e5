"""Bytes to and from somewhere: a child process, standard input and output, memory."""
