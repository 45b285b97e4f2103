"""The project of a folder: its file `deltaproduce.toml`, its pipeline, and its store."""
