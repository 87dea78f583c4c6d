"""`python -m ident.cli`: the command where its script is not on the path."""

from ident.cli.main import main

if __name__ == "__main__":
    main()
