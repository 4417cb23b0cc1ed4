"""How an admitted run is carried out, one step at a time; when, and by which process, is decided elsewhere."""
