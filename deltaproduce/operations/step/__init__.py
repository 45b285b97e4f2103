"""One step of one stage: what it reads, produces and compares, and how its tables change."""
