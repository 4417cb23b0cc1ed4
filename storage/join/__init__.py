"""Join: tokens, joins and their turns, what they report, and the rafts that they are taken into."""
