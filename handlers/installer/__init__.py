"""The installer's API: the config of a node, installs, and their events as a stream."""
