"""File systems: where a store's files can be, and how they are listed, read and removed there.

What uses a directory gets it as a `Directory` and does not ask where it is. A file system is added
as a module beside the others, and named in `choice`.
"""
