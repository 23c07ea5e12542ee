"""Check the project's prose against rules that docs/style.md explains."""
