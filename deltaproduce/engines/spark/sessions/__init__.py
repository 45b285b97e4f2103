"""Sessions: how to start one, which settings it has, and what its errors mean."""
