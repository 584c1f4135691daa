"""Log lines on standard error: for people, for the journal, or as JSON."""

import logging
import os
import sys
from typing import Final

import msgspec

from config.model import Log

LEVELS: Final = {
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}
# syslog(3) priorities, which the journal reads from a line's beginning.
PRIORITIES: Final = {"ERROR": 3, "CRITICAL": 2, "WARNING": 4, "INFO": 6, "DEBUG": 7}


class _Text(logging.Formatter):
    def __init__(self, journal: bool) -> None:
        super().__init__("%(message)s" if journal else "%(asctime)s %(levelname)-7s %(message)s")
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if not self._journal:
            return text
        priority = f"<{PRIORITIES.get(record.levelname, 6)}>"
        return "\n".join(priority + line for line in text.splitlines())


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def set_up(settings: Log) -> None:
    """Log to standard error as configured; may be called again after a reload."""
    handler = logging.StreamHandler(sys.stderr)
    journal = "JOURNAL_STREAM" in os.environ
    handler.setFormatter(_Json() if settings.format == "json" else _Text(journal))
    logging.basicConfig(handlers=[handler], level=LEVELS[settings.level], force=True)
