"""Opening a store: where its tables may be, and whether they are reached there."""
