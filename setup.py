"""Where the packages lie; all else is in pyproject.toml."""

from setuptools import find_packages, setup

# What predictions rest on: a folder of the book in a checkout, of the package where that is installed.
DATA = {f"traintime.data.{name}": f"data/{name}" for name in ("derived", "external")}
setup(packages=[*find_packages(include=["traintime*"]), *DATA], package_dir=DATA)
