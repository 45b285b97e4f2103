"""Projects: a folder's file `deltaproduce.toml`, its pipeline, and its store."""
