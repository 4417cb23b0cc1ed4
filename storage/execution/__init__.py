"""Carrying out runs: who has one in hand, how far it is, and what it sent."""
