"""What is told of steps: before an update, as a plan, and after it, in the log."""
