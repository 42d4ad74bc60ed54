"""Where the packages lie, and what depends on where the book is published; all else is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

# What predictions rest on: a folder of the book in a checkout, of the package where that is installed.
DATA = {f"traintime.data.{name}": f"data/{name}" for name in ("derived", "external")}
CONFIG, README = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("_config.yml", "README.md"))
URL = re.search(r'(?m)^repository:\n  url: "(.*)"$', CONFIG)[1]  # "" until the book is published


def absolute(link: re.Match) -> str:
    """A link of README as an index needs it, which shows README alone: with an address, or without a link."""
    picture, text, path = link.groups()
    if URL:
        return f"{picture}[{text}]({URL}/{'raw' if picture else 'blob'}/main/{path})"
    return "" if picture else text


setup(
    packages=[*find_packages(include=["traintime*"]), *DATA],
    package_dir=DATA,
    long_description=re.sub(r"(!?)\[([^\]]*)\]\((?!https?://)([^)]+)\)", absolute, README),
    long_description_content_type="text/markdown",
    project_urls={"Source": URL, "Changelog": f"{URL}/blob/main/CHANGELOG.md"} if URL else {},
)
