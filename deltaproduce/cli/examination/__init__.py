"""What is looked at without running anything: a project, a stage, a machine."""
