"""The sample project that ``deltaproduce init`` creates from `files`."""
