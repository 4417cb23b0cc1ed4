"""Reads a document into contracts, and refuses one that the generated code could not stand for."""
