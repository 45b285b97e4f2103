"""The command, as ``python -m deltaproduce.cli``."""

from deltaproduce.cli.app import main

if __name__ == "__main__":
    main()
