"""A batch with images, answered by a real vLLM on a real Ray: run by hand in the CPU image (CONTRIBUTING.md).

    python -m cluster.images.tiny_seeing_model FOLDER
    python tests/by_hand/seeing_batch.py FOLDER

Prints what became of each row. The exit status is 1 where a row became something else than it should.
"""

import argparse
import base64
import io
import json
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pyarrow
import ray
from PIL import Image
from pyarrow import parquet

from daybreak_runtime.batch import __main__ as program
from daybreak_runtime.batch.order import Order
from daybreak_runtime.batch.progress import Progress

BRIEF = {"temperature": 0, "max_tokens": 8}
TRANSPOSED = 6
"""EXIF's number for a picture that lies on its left side."""
ANSWERED = ""
LARGE = 40
"""Rows with a picture of 81 million pixels each."""


def drawn(
    colour: tuple[int, ...] = (200, 10, 10), size: tuple[int, int] = (80, 60), kind: str = "PNG"
) -> bytes:
    """Return a picture of one color in a file of this kind."""
    return saved(Image.new("RGBA" if len(colour) == 4 else "RGB", size, colour), kind)


def saved(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """Return the file of a picture."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def halves() -> Image.Image:
    """A picture that is another one when it lies on its side."""
    image = Image.new("RGB", (112, 84), (200, 10, 10))
    image.paste((10, 10, 200), (0, 0, 56, 84))
    return image


def lying() -> bytes:
    """Return the image as a telephone keeps it: on its side, with a note how to hold it."""
    exif = Image.Exif()
    exif[0x0112] = TRANSPOSED
    return saved(halves().transpose(Image.Transpose.ROTATE_90), exif=exif)


def bilevel(edge: int) -> bytes:
    """Return a file of a few KB that is a square with `edge` pixels per edge."""
    return saved(Image.new("1", (edge, edge)))


def text(file: bytes) -> str:
    return base64.b64encode(file).decode()


RED, BLUE = drawn(), drawn((10, 10, 200))
FILES: Mapping[str, tuple[bytes, str]] = {
    **{kind: (drawn(kind=kind), ANSWERED) for kind in ("PNG", "JPEG", "WebP", "GIF", "BMP", "TIFF")},
    "blue": (BLUE, ANSWERED),
    "grey": (saved(Image.new("L", (80, 60), 90)), ANSWERED),
    "16 bits": (saved(Image.new("I;16", (80, 60), 9000)), ANSWERED),
    "CMYK": (saved(Image.new("CMYK", (80, 60)), "JPEG"), ANSWERED),
    "white": (drawn((255, 255, 255)), ANSWERED),
    "transparent": (drawn((0, 0, 0, 0)), ANSWERED),
    "upright": (saved(halves()), ANSWERED),
    "lying": (lying(), ANSWERED),
    "one pixel": (drawn(size=(1, 1)), ANSWERED),
    "photo": (drawn(size=(4000, 3000), kind="JPEG"), ANSWERED),
    "cut": (RED[:60], "the image cannot be read: .*truncated"),
    "head only": (RED[:8] + b"x" * 100, "the image cannot be read"),
    "words": (b"no picture at all, only words", "column photo holds no image in base64"),
    "empty": (b"", "column photo holds no image"),
    "bomb": (bilevel(20_000), "the image cannot be read: .*400000000 pixels"),
    "thin": (drawn(size=(1, 1000)), "aspect ratio"),
}
TEXTS: Mapping[str, tuple[Any, str]] = {
    "base64": (text(RED), ANSWERED),
    "data": (f"data:image/png;base64,{text(RED)}", ANSWERED),
    "object": ({"bytes": text(RED)}, ANSWERED),
    "http": ("http://127.0.0.1:1/a.png", "not fetched"),
    "file": ("file:///etc/hostname", "not fetched"),
    "path": ("pictures/a.png", "column photo holds no image in base64"),
    "null": (None, "column photo holds no image"),
    "number": (7, "column photo holds no image"),
    "bad data": (f"data:image/png;base64,{text(RED)[:40]}!!!!", "the image cannot be read"),
}


def shown(file: bytes | str) -> dict[str, Any]:
    """Return a picture as a part of a message."""
    url = file if isinstance(file, str) else f"data:image/png;base64,{text(file)}"
    return {"type": "image_url", "image_url": {"url": url}}


def read_message(words: str) -> dict[str, Any]:
    """Words as a part of a message."""
    return {"type": "text", "text": words}


MESSAGES: Mapping[str, tuple[Any, str]] = {
    "none": ("Hello", ANSWERED),
    "one": ([shown(RED), read_message("what?")], ANSWERED),
    "two": ([shown(RED), read_message("and"), shown(BLUE), read_message("?")], ANSWERED),
    "swapped": ([shown(BLUE), read_message("and"), shown(RED), read_message("?")], ANSWERED),
    "nine": ([shown(RED)] * 9, ANSWERED),
    "forty large": ([shown(drawn(size=(900, 900)))] * 40, "maximum model length of 1024"),
    "second cut": ([shown(RED), shown(RED[:60])], "image 2 of 2 cannot be read"),
    "elsewhere": ([shown("https://127.0.0.1:1/x.png")], "not fetched"),
    "place without an image": ("is <|image_pad|> this?", ANSWERED),
    "more places than images": ([shown(RED), read_message("<|image_pad|>")], ANSWERED),
    "sound": ([{"type": "input_audio", "input_audio": {}}], "a part of type input_audio"),
}


class Batches:
    """Runs batches of one model in a folder.

    Args:
        model: Folder of its weights.
        folder: Where rows are read and written.
    """

    def __init__(self, model: Path, folder: Path) -> None:
        self._model, self._folder = model, folder
        self.wrong: list[str] = []

    def place(self, name: str) -> Path:
        """Return the folder of a batch's input."""
        found = self._folder / f"in-{name}"
        found.mkdir(exist_ok=True)
        return found

    def run(self, name: str, expected: Mapping[str, str], **request: Any) -> dict[str, str]:
        """Run one and print its rows; returns the answers by the rows' names.

        Args:
            name: Its name.
            expected: By a row's name what its error must match; empty for an answer.
            request: How requests are made of rows.
        """
        out = self._folder / f"out-{name}"
        engines = {
            "source": str(self._model),
            "engine_args": {"max_model_len": 1024, "enforce_eager": True, "mm_processor_cache_gb": 0.1},
            "bundle": {"CPU": 1, "model": 1},
            "resource": "prepare",
            "max_num_seqs": 8,
            "batch_size": 4,
        }
        order = Order.read(
            {
                "uid": name,
                "input": {"uri": f"file://{self.place(name)}", "format": "Auto"},
                "output": {"uri": f"file://{out}", "format": "JSONL"},
                "request": {"sampling_params": BRIEF, **request},
                "engines": engines,
            }
        )
        with tempfile.TemporaryDirectory() as work:
            program.run(order, Progress(name), Path(work))
        parts = [part.read_text().splitlines() for part in sorted(out.glob("part-*"))]
        rows = sorted((json.loads(line) for part in parts for line in part), key=lambda row: row["row_id"])
        if [row["name"] for row in rows] != list(expected):
            self.wrong.append(f"{name}: the rows are {[row['name'] for row in rows]}")
        for row in rows:
            self._judge(name, row, expected.get(row["name"], ANSWERED))
        return {row["name"]: row["response"] or "" for row in rows}

    def _judge(self, name: str, row: Mapping[str, Any], desired: str) -> None:
        error = row["error"] or ""
        fine = bool(re.search(desired, error)) if desired else not error and bool(row["response"])
        print(f"{name:9} {row['name']:24} {'' if fine else 'WRONG '}{error[:120] or repr(row['response'])}")
        if not fine:
            self.wrong.append(f"{name}: {row['name']}: {error or 'answered'}")

    def same(self, answers: Mapping[str, str], one: str, other: str, *, same: bool = True) -> None:
        """Two pictures that are the same get the same answer, and others another."""
        if (answers[one] == answers[other]) != same:
            self.wrong.append(f"{one} and {other} should be {'the same' if same else 'two'} to the model")


def lines(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines."""
    (folder / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def columns(batches: Batches) -> None:
    """Images in a column: bytes in Parquet, texts in JSON lines."""
    folder = batches.place("columns")
    table = {"name": list(FILES), "photo": [file for file, _ in FILES.values()]}
    parquet.write_table(pyarrow.table(table), folder / "a.parquet")
    lines(
        folder,
        [*({"name": name, "photo": given} for name, (given, _) in TEXTS.items()), {"name": "no column"}],
    )
    expected = {name: words for name, (_, words) in {**FILES, **TEXTS}.items()}
    expected["no column"] = "the row has no column photo"
    answers = batches.run("columns", expected, prompt="What is this?", images=["photo"])
    for name in ("JPEG", "WebP", "GIF", "BMP", "TIFF", "base64", "data", "object"):
        batches.same(answers, "PNG", name)
    batches.same(answers, "PNG", "blue", same=False)
    batches.same(answers, "white", "transparent")
    batches.same(answers, "upright", "lying")


def messages(batches: Batches) -> None:
    """Check images in messages, several in one, and prompts that are not tokenized next to the engine."""
    rows = [
        {"name": name, "m": [{"role": "user", "content": parts}]} for name, (parts, _) in MESSAGES.items()
    ]
    lines(batches.place("messages"), rows)
    expected = {name: words for name, (_, words) in MESSAGES.items()}
    answers = batches.run("messages", expected, messages_column="m", tokenize=False)
    batches.same(answers, "two", "swapped", same=False)


def large(batches: Batches) -> None:
    """Small files that are large pictures: what they take of the memory at most."""
    file = bilevel(9000)
    names = [str(n) for n in range(LARGE)]
    table = pyarrow.table({"name": names, "photo": [file] * LARGE})
    parquet.write_table(table, batches.place("large") / "a.parquet")
    before, most, over = psutil.virtual_memory().used, 0, threading.Event()

    def look() -> None:
        nonlocal most
        while not over.wait(0.1):
            most = max(most, psutil.virtual_memory().used - before)

    thread = threading.Thread(target=look)
    thread.start()
    begun = time.monotonic()
    try:
        batches.run("large", dict.fromkeys(names, ANSWERED), prompt="What?", images=["photo"])
    finally:
        over.set()
        thread.join()
    print(
        f"{LARGE} files of {len(file)} bytes: {most / 2**30:.1f} GiB at most, engine included, "
        f"of {psutil.virtual_memory().total / 2**30:.1f}; {time.monotonic() - begun:.0f} s"
    )


def main() -> int:
    """Run all batches. Returns the exit status."""
    parser = argparse.ArgumentParser(description="Run batches with images against a real vLLM.")
    parser.add_argument("model", type=Path, help="folder that tiny_seeing_model has written")
    arguments = parser.parse_args()
    resources = {"daybreak-head": 1, "prepare": 1, "model": 1}
    ray.init(num_cpus=4, resources=resources, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        batches = Batches(arguments.model.resolve(), Path(folder))
        columns(batches)
        messages(batches)
        large(batches)
    for each in batches.wrong:
        print(f"wrong: {each}")
    return 1 if batches.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
