"""Installer: the config, attempts and their events, and what addresses tried with the install code."""
