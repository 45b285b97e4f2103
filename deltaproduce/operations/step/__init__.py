"""One step of one stage: what it reads, makes, compares, and what that means for its tables."""
