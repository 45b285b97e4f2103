"""Tables whose rows are marked as deleted in Delta's log, read and committed on the driver."""
