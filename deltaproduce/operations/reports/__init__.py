"""Reports on steps: before an update as a plan, and after it in the log."""
