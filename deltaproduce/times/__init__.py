"""Times: the names of time zones, and the local times and days of instants."""
