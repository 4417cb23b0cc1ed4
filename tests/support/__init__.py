"""What several tests share: a real server, its clients, and signed events."""
