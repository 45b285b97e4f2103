"""The sample project that ``deltaproduce init`` makes, from `files`."""
