"""Templates of HAProxy's configuration."""

from pathlib import Path

import jinja2


def load(file: Path) -> jinja2.Template:
    """Return a template, which may include others of its folder. A name without a value is an error."""
    environment = jinja2.Environment(  # noqa: S701 -- HAProxy's configuration, not HTML
        loader=jinja2.FileSystemLoader(file.parent),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(file.name)
