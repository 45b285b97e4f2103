"""File systems: where a store's files can be, and how to list, read and remove them there.

Code that uses a directory gets it as a `Directory`, wherever it is. To add a file system, add a
module here and name it in `choice`.
"""
