"""Follows an install from another place: its events as they come, over lost connections, to the last verdict."""
