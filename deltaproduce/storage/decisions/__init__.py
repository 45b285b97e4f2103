"""Pure decisions about tables, from their commits and the versions: they read and write nothing."""
