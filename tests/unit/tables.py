"""What stands in the cells of a page's table."""

import re

from IPython.display import HTML


def cells(table: HTML) -> list[list[str]]:
    """The texts of the table's body, a list a row, with plain spaces and hyphens."""
    text = table.data.replace("\u00a0", " ").replace("\u2011", "-")
    rows = re.findall(r"<tr>\n(.*?)</tr>", text, flags=re.DOTALL)
    return [found for row in rows if (found := re.findall(r"<td[^>]*>(.*?)</td>", row, flags=re.DOTALL))]
