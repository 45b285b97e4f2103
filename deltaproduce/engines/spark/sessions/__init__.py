"""Sessions: how one is made, what is set in it, and what its errors mean."""
