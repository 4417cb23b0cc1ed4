"""Proves, with real processes over real sockets, that what was acknowledged stands, whatever happens to the server.

That is kill -9, a full disk, a lock, an audit file or a database that goes away, two servers, overload, and clients
that are slow, hostile or gone; and that none of it leaves memory or descriptors behind.
"""
