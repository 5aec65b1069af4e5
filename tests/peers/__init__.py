"""The real peers: the official SDKs, and what they say about a value.

`install` brings them onto the machine, `validators` asks them. Nothing in the
library depends on this folder.
"""
