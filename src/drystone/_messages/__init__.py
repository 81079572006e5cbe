"""What people read: words of messages, tables in notebooks, bars of progress."""

from drystone._messages.html import html_list, html_table
from drystone._messages.progress import progress_bar
from drystone._messages.text import count_and_first_few, counted, digits_for, first_few, require, unknown

__all__ = [
    "count_and_first_few",
    "counted",
    "digits_for",
    "first_few",
    "html_list",
    "html_table",
    "progress_bar",
    "require",
    "unknown",
]
