"""A page of HTML, as far as tests look into it."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """The words of a page, and the elements of it that could run or load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.active: list[str] = []
        self._is_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_style = tag == "style"
        if tag in {"script", "iframe", "object", "embed", "link", "base", "form", "img"}:
            self.active.append(tag)
        self.active += [f"{tag} {name}" for name, _ in attrs if name.startswith("on")]
        self.active += [
            f"{tag} {name}={value}"
            for name, value in attrs
            if name in {"src", "href", "xlink:href"} and not (value or "").startswith("#")
        ]

    def handle_data(self, data: str) -> None:
        if not self._is_style:
            self.words.append(data)
