"""What verbs say: answers as values, what is said of the library's values, how it is printed."""
