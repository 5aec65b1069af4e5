"""The web page's server: who may come in, and what of the hosted sessions is sent to whom.

It observes and steers the sessions of `twofold.host`, folds nothing itself, and holds nothing that
would be lost with it.
"""
