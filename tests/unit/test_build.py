"""Where the sources are published, as far as git or the environment tells."""

from types import SimpleNamespace

import pytest

from traintime.book import build

# Where the sources are


@pytest.fixture
def remote(monkeypatch):
    """Set what git says of its remote."""
    monkeypatch.delenv("TRAINTIME_REPOSITORY", raising=False)

    def answer(url):
        monkeypatch.setattr(build.subprocess, "run", lambda *args, **kwargs: SimpleNamespace(stdout=url))

    return answer


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/someone/traintime\n", "https://example.org/someone/traintime"),
        ("https://example.org/someone/traintime.git\n", "https://example.org/someone/traintime"),
        ("git@example.org:someone/traintime.git\n", "https://example.org/someone/traintime"),
        ("git@example.org:someone/traintime\n", "https://example.org/someone/traintime"),
        ("", None),
        ("../somewhere/traintime.git\n", None),
    ],
)
def test_the_address_follows_from_the_git_remote(remote, url, expected):
    remote(url)
    assert build.repository_url() == expected


def test_the_environment_has_the_first_word(remote, monkeypatch):
    remote("https://example.org/someone/traintime\n")
    monkeypatch.setenv("TRAINTIME_REPOSITORY", "git@example.org:other/traintime.git")
    assert build.repository_url() == "https://example.org/other/traintime"


def test_a_machine_without_git_has_no_address(monkeypatch):
    def run(*args, **kwargs):
        raise FileNotFoundError

    monkeypatch.delenv("TRAINTIME_REPOSITORY", raising=False)
    monkeypatch.setattr(build.subprocess, "run", run)
    assert build.repository_url() is None
