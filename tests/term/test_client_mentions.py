"""`twofold run` at a terminal: files and images that are mentioned, attached and shown."""

import base64
import json
import os
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.support.plain_client import at_prompt, client, demo, in_input, leave
from tests.support.raw_process import raw_agent
from tests.support.terminal_stage import Stage


def png(width: int = 3, height: int = 2) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + b"\x80" * 3 * width for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b"")]
    )


def prompts(record: Path) -> list[list[dict[str, Any]]]:
    lines = map(json.loads, record.read_text().splitlines())
    sent = [each["message"] for each in lines if "message" in each]
    return [each["params"]["prompt"] for each in sent if each.get("method") == "session/prompt"]


def red(stage: Stage) -> str:
    """What is drawn as an error in the row of the cursor."""
    row = stage.styles()[-len(stage.screen()) :][stage.cursor[1]]
    return "".join(run.text for run in row if run.look.fg == "ff8787")


def outside(folder: Path) -> Path:
    """A directory for what must not be in the tree that is completed."""
    made = folder / "outside"
    made.mkdir()
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name in ("src/deep/needle.py", "src/deep/other.py", "out/needle.o"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("one\ntwo\nthree\n", encoding="utf-8")
    (root / ".gitignore").write_text("out/\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def test_a_file_is_found_by_its_letters_and_shown_below_the_prompt(
    tree: Path, tmp_path: Path
) -> None:
    record = outside(tmp_path) / "record"
    with client(f"--record={record}", agent=demo("echo"), cwd=tree) as stage:
        stage.wait_for(at_prompt)
        stage.type("read @ndl")
        stage.wait_for("src/deep/needle.py")
        assert "needle.o" not in stage.text
        stage.press("tab")
        stage.wait_for("> read @src/deep/needle.py")
        stage.press("enter")
        stage.wait_for("echo: read @src/deep/needle.py")
        stage.wait_for(at_prompt)
        assert "  └ src/deep/needle.py · embedded, 3 lines" in stage.text
        stage.type("list @src/deep and @out/needle.o")
        stage.press("enter")
        stage.wait_for("  └ src/deep/ · directory, 2 entries, sent as a link")
        stage.wait_for("  └ out/needle.o · embedded, 3 lines")
        leave(stage)
    kinds = [[block["type"] for block in prompt] for prompt in prompts(record)]
    assert kinds == [["text", "resource"], ["text", "resource_link", "text", "resource"]]


def test_a_mention_that_does_not_exist_is_marked_before_it_is_sent(tree: Path) -> None:
    with client(agent=demo("echo"), cwd=tree) as stage:
        stage.wait_for(at_prompt)
        stage.type("see @src/gone.py and @src/deep/other.py now")
        stage.wait_for("@src/gone.py is no file here")
        stage.wait_for(lambda stage: red(stage) == "@src/gone.py")
        stage.press("ctrl-c")
        stage.wait_for(at_prompt)
        assert "is no file here" not in "\n".join(stage.screen())
        leave(stage)


def test_what_is_queued_shows_its_attachments_when_it_is_sent(tree: Path, tmp_path: Path) -> None:
    gate = outside(tmp_path) / "gate"
    os.mkfifo(gate)
    script = f"""
def prompt(request):
    open({str(gate)!r}).read()
    answer(request, {{"stopReason": "end_turn"}})
"""
    with client("--start", "first", agent=raw_agent(script), cwd=tree) as stage:
        stage.wait_for("◐ working")
        stage.type("see @src/deep/other.py \r")
        stage.wait_for("⋯ next: see @src/deep/other.py")
        assert "└ src/deep/other.py" not in stage.text
        gate.write_text("go on")
        stage.wait_for("  └ src/deep/other.py · 14 bytes, sent as a link")


def test_ctrl_c_right_behind_enter_stops_a_prompt_with_a_file(tree: Path) -> None:
    typed = "/slow see @src/deep/other.py now"
    with client(cwd=tree) as stage:
        stage.wait_for(at_prompt)
        stage.type(f"{typed}\r\x03")
        # it depends on the moment whether the files were read already
        stage.wait_for(
            lambda stage: at_prompt(stage, typed) or "The turn ended: cancelled." in stage.text
        )
        stage.wait_for(lambda stage: at_prompt(stage, typed) or at_prompt(stage))
        assert "tick tick tick tick" not in stage.text


def test_in_a_directory_without_git_files_are_found_and_ignored_ones_are_not(
    tmp_path: Path,
) -> None:
    for name in ("src/deep/needle.py", "out/needle.o", "node_modules/needle.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("out/\n", encoding="utf-8")
    with client(cwd=tmp_path) as stage:
        stage.wait_for(at_prompt)
        stage.type("@ndl")
        stage.wait_for("src/deep/needle.py")
        assert "needle.o" not in stage.text
        assert "needle.js" not in stage.text
        stage.press("tab")
        stage.wait_for(lambda stage: in_input(stage, "@src/deep/needle.py"))


def test_nothing_outside_of_the_directory_is_found(tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "needle.py").touch()
    root = tmp_path / "tree"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "beside")
    (root / "also-a-needle.txt").touch()
    with client(cwd=root) as stage:
        stage.wait_for(at_prompt)
        stage.type("@eedle")
        stage.wait_for("  also-a-needle.txt")
        assert "needle.py" not in stage.text


def test_a_special_file_is_not_read(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    with client(agent=demo("echo"), cwd=tree) as stage:
        stage.wait_for(at_prompt)
        stage.type("see @pipe ")
        stage.press("enter")
        stage.wait_for("  └ pipe · sent as a link: it is not a regular file, so it is not read")
        leave(stage)


# ---- images ----------------------------------------------------------------------------------


def tool(folder: Path, name: str, script: str) -> dict[str, str]:
    """An environment with a program for the clipboard."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o700)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ""}


def test_an_image_of_the_clipboard_is_a_mark_that_can_be_removed_and_sent(
    tree: Path, tmp_path: Path
) -> None:
    aside = outside(tmp_path)
    (aside / "image").write_bytes(png())
    script = f'case "$*" in *list*) echo text/plain; echo image/png;; *) cat {aside}/image;; esac'
    env = tool(aside, "wl-paste", script)
    record = aside / "record"
    with client(f"--record={record}", agent=demo("echo"), cwd=tree, env=env) as stage:
        mark = f"3×2 PNG, {len(png())} bytes"
        stage.wait_for(at_prompt)
        stage.press("ctrl-v")
        stage.wait_for(lambda stage: in_input(stage, f"[image #1: {mark}]"))
        stage.press("backspace")
        stage.wait_for(at_prompt)
        stage.type("/paste")
        stage.press("enter")
        stage.wait_for(lambda stage: in_input(stage, f"[image #2: {mark}]"))
        stage.type(" what is it?")
        stage.press("enter")
        stage.wait_for(f"  └ clipboard · image, {mark}")
        stage.wait_for("echo: [image #2")
        leave(stage)
    data = base64.b64encode(png()).decode()
    assert prompts(record) == [
        [
            {"type": "text", "text": f"[image #2: {mark}]"},
            {"type": "image", "data": data, "mimeType": "image/png"},
            {"type": "text", "text": " what is it?"},
        ]
    ]


def test_without_an_image_or_a_program_the_client_says_so(tree: Path, tmp_path: Path) -> None:
    aside = outside(tmp_path)
    env = tool(aside, "wl-paste", "echo text/plain")
    with client(agent=demo("echo"), cwd=tree, env=env) as stage:
        stage.wait_for(at_prompt)
        stage.press("ctrl-v")
        stage.wait_for("There is no image in the clipboard.")
        leave(stage)
    with client(agent=demo("echo"), cwd=tree, env={"WAYLAND_DISPLAY": "", "DISPLAY": ""}) as stage:
        stage.wait_for(at_prompt)
        stage.press("ctrl-v")
        stage.wait_for("There is no program that reads images from the clipboard.")
        leave(stage)


def test_an_image_by_its_path_is_sent_as_one_where_the_agent_takes_images(
    tree: Path, tmp_path: Path
) -> None:
    (tree / "picture.png").write_bytes(png())
    record = outside(tmp_path) / "record"
    with client(f"--record={record}", agent=demo("echo"), cwd=tree) as stage:
        stage.wait_for(at_prompt)
        stage.type("see @picture.png ")
        stage.press("enter")
        stage.wait_for(f"  └ picture.png · image, 3×2 PNG, {len(png())} bytes")
        leave(stage)
    assert [block["type"] for block in prompts(record)[0]] == ["text", "image"]


def test_an_agent_that_takes_no_images_gets_a_link_and_the_client_says_so(
    tree: Path, tmp_path: Path
) -> None:
    (tree / "picture.png").write_bytes(png())
    record = outside(tmp_path) / "record"
    with client(f"--record={record}", agent=raw_agent(""), cwd=tree) as stage:
        stage.wait_for(at_prompt)
        stage.type("see @picture.png ")
        stage.press("enter")
        words = f"{len(png())} bytes, sent as a link: the agent takes no images"
        stage.wait_for(f"  └ picture.png · {words}")
        stage.wait_for(at_prompt)
        stage.press("ctrl-v")
        stage.wait_for("The agent takes no images. A file that you mention with @ is sent as")
        leave(stage)
    assert [block["type"] for block in prompts(record)[0]] == ["text", "resource_link"]


def test_an_image_that_arrives_late_stays_in_the_session_that_asked_for_it(
    tree: Path, tmp_path: Path
) -> None:
    aside = outside(tmp_path)
    (aside / "image").write_bytes(png())
    os.mkfifo(aside / "gate")
    script = f'case "$*" in *list*) cat {aside}/gate;; *) cat {aside}/image;; esac'
    env = tool(aside, "wl-paste", script)
    with client(cwd=tree, env=env) as stage:
        stage.wait_for(at_prompt)
        stage.type("see ")
        stage.press("ctrl-v")
        with open(aside / "gate", "w", encoding="utf-8") as gate:  # open once it is read
            stage.press("ctrl-u")
            stage.type("/new\r")
            stage.wait_for("── 2 · new session")
            stage.wait_for(at_prompt)
            gate.write("image/png\n")
        stage.type("two")
        stage.wait_for(lambda stage: in_input(stage, "two"))
        stage.press("ctrl-t")
        mark = f"[image #1: 3×2 PNG, {len(png())} bytes]"
        stage.wait_for(lambda stage: in_input(stage, mark))
        stage.press("ctrl-t")
        stage.wait_for(lambda stage: in_input(stage, "two"))
