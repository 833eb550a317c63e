"""`tamis install`: the file of each client, what is written there, and what is left alone."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest
import yaml

from tamis.cli.main import main
from tamis.clients.install import (
    Step,
    carry_out,
    checked_scope,
    edit_entry,
    parse,
    running_command,
    server_entry,
    skill_text,
)
from tamis.clients.table import CLIENTS, Machine
from tamis.errors import RootTooWide, StorageFault, UsageError
from tamis.live.folders import chosen_roots, holds_a_home

HOME, PROJECT = Path("/home/ada"), Path("/work/it")
VARIABLES = (
    "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "FLATPAK_XDG_CONFIG_HOME", "XDG_CONFIG_HOME"
)  # fmt: skip


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run `tamis install` in a project, with a home of its own."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(sys, "platform", "linux")

    def run(*arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as caught:
            main(["install", *arguments])
        captured = capsys.readouterr()
        assert caught.value.code == code, captured.err
        return captured.err if code == 2 else captured.out

    return run


def entry_of(name: str, file: Path) -> dict:
    return parse(file, file.read_text("utf-8"))[CLIENTS[name].group]["tamis"]


# --- which file ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "linux", "mac", "project"),
    [
        ("claude-code", ".claude.json", ".claude.json", ".mcp.json"),
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
            "Library/Application Support/Claude/claude_desktop_config.json",
            None,
        ),
        ("cursor", ".cursor/mcp.json", ".cursor/mcp.json", ".cursor/mcp.json"),
        (
            "vscode",
            ".config/Code/User/mcp.json",
            "Library/Application Support/Code/User/mcp.json",
            ".vscode/mcp.json",
        ),
        ("codex", ".codex/config.toml", ".codex/config.toml", ".codex/config.toml"),
        (
            "gemini",
            ".gemini/settings.json",
            ".gemini/settings.json",
            ".gemini/settings.json",
        ),
        (
            "zed",
            ".config/zed/settings.json",
            ".config/zed/settings.json",
            ".zed/settings.json",
        ),
    ],
)
def test_each_client_has_its_files(name, linux, mac, project):
    client = CLIENTS[name]
    assert client.file("user", Machine(HOME, "linux", {}), PROJECT) == HOME / linux
    assert client.file("user", Machine(HOME, "darwin", {}), PROJECT) == HOME / mac
    if project is None:
        assert client.scopes == ("user",)
    else:
        assert client.scopes == ("project", "user")
        assert (
            client.file("project", Machine(HOME, "linux", {}), PROJECT)
            == PROJECT / project
        )


@pytest.mark.parametrize(
    ("name", "variable", "file"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "/else/.claude.json"),
        (
            "claude-desktop",
            "XDG_CONFIG_HOME",
            "/else/Claude/claude_desktop_config.json",
        ),
        ("vscode", "XDG_CONFIG_HOME", "/else/Code/User/mcp.json"),
        ("codex", "CODEX_HOME", "/else/config.toml"),
        ("gemini", "GEMINI_CLI_HOME", "/else/.gemini/settings.json"),
        ("zed", "XDG_CONFIG_HOME", "/else/zed/settings.json"),
        ("zed", "FLATPAK_XDG_CONFIG_HOME", "/else/zed/settings.json"),
    ],
)
def test_a_variable_moves_it(name, variable, file):
    client = CLIENTS[name]
    assert client.file(
        "user", Machine(HOME, "linux", {variable: "/else"}), PROJECT
    ) == Path(file)
    usual = client.file("user", Machine(HOME, "linux", {}), PROJECT)
    assert (
        client.file("user", Machine(HOME, "linux", {variable: "relative"}), PROJECT)
        == usual
    )
    assert client.file("user", Machine(HOME, "linux", {variable: ""}), PROJECT) == usual


def test_zed_does_not_ask_for_xdg_on_a_mac():
    machine = Machine(HOME, "darwin", {"XDG_CONFIG_HOME": "/else"})
    assert (
        CLIENTS["zed"].file("user", machine, PROJECT)
        == HOME / ".config/zed/settings.json"
    )


def test_skills_lie_where_they_are_read():
    machine = Machine(HOME, "linux", {})
    moved = Machine(HOME, "linux", {"CLAUDE_CONFIG_DIR": "/else"})
    claude, codex = CLIENTS["claude-code"], CLIENTS["codex"]
    assert (
        claude.skill_file("project", machine, PROJECT)
        == PROJECT / ".claude/skills/tamis/SKILL.md"
    )
    assert (
        claude.skill_file("user", machine, PROJECT)
        == HOME / ".claude/skills/tamis/SKILL.md"
    )
    assert claude.skill_file("user", moved, PROJECT) == Path(
        "/else/skills/tamis/SKILL.md"
    )
    assert (
        codex.skill_file("project", machine, PROJECT)
        == PROJECT / ".agents/skills/tamis/SKILL.md"
    )
    assert (
        codex.skill_file("user", machine, PROJECT)
        == HOME / ".agents/skills/tamis/SKILL.md"
    )
    assert CLIENTS["claude-desktop"].skill_file("user", machine, PROJECT) is None


def test_a_scope_that_a_client_has_not_is_said():
    assert checked_scope(CLIENTS["cursor"], None) == "project"
    assert checked_scope(CLIENTS["claude-desktop"], None) == "user"
    with pytest.raises(UsageError, match="no file for a project"):
        checked_scope(CLIENTS["claude-desktop"], "project")


# --- what is written ----------------------------------------------------------------------------


def test_the_command_is_the_running_one_by_its_whole_path(tmp_path):
    def script(name: str) -> str:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        return str(tmp_path / name)

    python, elsewhere = script("usr/python3"), script("local/tamis")
    assert running_command("-c", python) == (python, "-m", "tamis")
    assert running_command(elsewhere, python) == (elsewhere,)
    assert running_command(script("local/pytest"), python) == (python, "-m", "tamis")
    assert running_command(elsewhere, python)[0].startswith("/")
    beside = script("usr/tamis")
    assert running_command(elsewhere, python) == (beside,)
    os.chmod(beside, 0o644)
    assert running_command(elsewhere, python) == (elsewhere,)


def test_an_entry_starts_the_server_with_each_root():
    command, roots = ("/py", "-m", "tamis"), (Path("/a"), Path("/b c"))
    args = ["-m", "tamis", "mcp", "--root", "/a", "--root", "/b c"]
    entry = {"command": "/py", "args": args}
    assert server_entry(CLIENTS["zed"], command, roots) == entry
    vscode = server_entry(CLIENTS["vscode"], command, roots)
    assert vscode == {"type": "stdio"} | entry


@pytest.mark.parametrize("name", CLIENTS)
def test_install_twice_then_remove(name, run, tmp_path):
    """Issue 6: idempotent, and gone again."""
    run(name)
    [file] = [each for each in tmp_path.rglob("*") if each.is_file()]
    entry = entry_of(name, file)
    assert entry["args"] == ["mcp", "--root", str(tmp_path / "project")]
    assert os.path.isabs(entry["command"])
    once, time = file.read_bytes(), file.stat().st_mtime_ns
    assert "nothing to do" in run(name)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (once, time)
    assert "removed" in run(name, "--remove")
    assert not file.exists()
    assert "nothing to remove" in run(name, "--remove")


ZED = """\
// Zed settings
{
  "theme": "One", // mine
  "context_servers": {
    "other": { "command": "x", "args": [], }, /* keep */
    // "off": {},
  },
  "vim_mode": true,
}
"""


def test_json_with_comments_is_left_and_the_entry_printed(run, tmp_path):
    file = tmp_path / "project/.zed/settings.json"
    file.parent.mkdir()
    file.write_text(ZED)
    said = run("zed", code=1)
    assert "to be done by hand" in said
    shown = json.loads(said[said.index("{") : said.rindex("}") + 1])
    assert shown["context_servers"]["tamis"]["args"][0] == "mcp"
    assert file.read_text() == ZED
    assert list(file.parent.iterdir()) == [file]
    [planned] = json.loads(run("zed", "--json", "--dry-run", code=1))["files"]
    assert (planned["action"], planned["backup"]) == ("manual", None)
    assert planned["entry"] == shown["context_servers"]["tamis"]


def test_json_with_comments_that_has_the_entry_needs_nothing(run, tmp_path):
    file = tmp_path / "project/.zed/settings.json"
    file.parent.mkdir()
    entry = json.loads(run("zed", "--json", "--dry-run"))["files"][0]["entry"]
    text = ZED.replace('// "off": {},', f'"tamis": {json.dumps(entry)},')
    file.write_text(text)
    assert "nothing to do" in run("zed")
    assert "remove tamis from context_servers there" in run("zed", "--remove", code=1)
    assert file.read_text() == text


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"a": 1e999}', '{"a": "\\ud800"}']
)
def test_json_that_would_not_come_back_is_left(text, run, tmp_path):
    file = tmp_path / "project/.mcp.json"
    file.write_text(text)
    assert "to be done by hand" in run("claude-code", code=1)
    assert file.read_text() == text


@pytest.mark.parametrize("indent", [None, 2, 4, "\t"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_other_servers_the_indentation_and_line_ends_stay(indent, end, run, tmp_path):
    file = tmp_path / "project/.mcp.json"
    others = {"other": {"command": "ö", "args": ["x"]}}
    data = {"mcpServers": others, "last": [1.5]}

    def text_of(value):
        text = json.dumps(value, indent=indent, ensure_ascii=False) + end
        return text.replace("\r\n", "\n").replace("\n", end or "\n")

    file.write_bytes(text_of(data).encode())
    run("claude-code")
    entry = entry_of("claude-code", file)
    changed = data | {"mcpServers": others | {"tamis": entry}}
    assert file.read_bytes().decode() == text_of(changed)
    backup = tmp_path / "project/.mcp.json.tamis-backup"
    assert backup.read_bytes().decode() == text_of(data)
    run("claude-code", "--remove")
    assert file.read_bytes().decode() == text_of(data)


def test_an_entry_of_ours_is_brought_up_to_date_and_keeps_the_rest(run, tmp_path):
    (tmp_path / "project/docs").mkdir()
    run("cursor")
    file = tmp_path / "project/.cursor/mcp.json"
    text = file.read_text().replace(
        '"tamis": {', '"tamis": {\n      "env": {"TAMIS_MODEL_NAME": "none"},'
    )
    file.write_text(text)
    assert "updated" in run(
        "cursor", "--root", "docs", "--root", str(tmp_path / "project")
    )
    entry = entry_of("cursor", file)
    assert entry["env"] == {"TAMIS_MODEL_NAME": "none"}
    assert entry["args"][1:] == [
        "--root",
        str(tmp_path / "project/docs"),
        "--root",
        str(tmp_path / "project"),
    ]


CODEX = """\
model = "o"  # mine

[mcp_servers.tamis]  # search
args = [  # old
  "mcp", "--root", "/gone",
] # end
command = "/gone/tamis"
startup_timeout_sec = 20

[mcp_servers.tamis.env]
A = '''
[not.a.table]
'''

# about the screen
[tui]
x = 1
"""


def test_a_toml_entry_is_brought_up_to_date_and_keeps_the_rest(run, tmp_path):
    file = tmp_path / "project/.codex/config.toml"
    file.parent.mkdir()
    file.write_text(CODEX)
    run("codex")
    text, entry = file.read_text(), entry_of("codex", file)
    args = json.dumps(["mcp", "--root", str(tmp_path / "project")])
    expected = CODEX.replace('"/gone/tamis"', json.dumps(entry["command"]))
    assert text == expected.replace('[  # old\n  "mcp", "--root", "/gone",\n]', args)
    assert "remove tamis from mcp_servers" in run("codex", "--remove", code=1)
    assert file.read_text() == text, "the comment about [tui] would go with the entry"
    file.write_text(text.replace("# about the screen\n", ""))
    run("codex", "--remove")
    assert file.read_text() == 'model = "o"  # mine\n\n[tui]\nx = 1\n'


def edited(text, wanted):
    return edit_entry(Path("config.toml"), text, "mcp_servers", "tamis", wanted)


def test_a_missing_key_goes_into_its_table():
    text = '[mcp_servers.tamis]\ncommand = "tamis"\n[x]\n'
    changed = edited(text, {"args": ["mcp"]})
    assert changed == '[mcp_servers.tamis]\ncommand = "tamis"\nargs = ["mcp"]\n[x]\n'


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { other = { command = "x" } }\n',
        "[mcp_servers.tamis]\n[[list]]\n[mcp_servers.b]\n[[list]]\n",
        "[mcp_servers.tamis]\n[tui]\n[mcp_servers.b]\n",
    ],
)
def test_toml_in_a_form_that_cannot_be_changed_is_left(text):
    assert edited(text, {"command": "tamis"}) is None


def test_inline_toml_is_brought_up_to_date():
    text = 'mcp_servers = { tamis = { command = "x" }, b = { command = "x" } } # c\n'
    changed = edited(text, {"command": "tamis"})
    assert changed == text.replace('"x"', '"tamis"', 1)


# --- with care ----------------------------------------------------------------------------------


def test_permissions_stay_and_the_backup_has_them(run, tmp_path):
    file = tmp_path / "home/.claude.json"
    file.write_text('{"token": "secret"}')
    file.chmod(0o600)
    run("claude-code", "--scope", "user")
    backup = tmp_path / "home/.claude.json.tamis-backup"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert json.loads(backup.read_text()) == {"token": "secret"}
    assert sorted(each.name for each in file.parent.iterdir()) == [
        ".claude.json",
        backup.name,
    ]


def test_earlier_backups_are_kept(run, tmp_path):
    file = tmp_path / "home/.gemini/settings.json"
    file.parent.mkdir()
    for number, text in enumerate(['{"a": 1}', '{"a": 2}', '{"a": 1}']):
        file.write_text(text)
        said = run("gemini", "--scope", "user")
        assert said.count("as it was:") == 1, number
    backups = sorted(file.parent.glob("*backup*"))
    assert [each.read_text() for each in backups] == ['{"a": 1}', '{"a": 2}']


def test_a_link_is_followed_and_stays(run, tmp_path):
    real = tmp_path / "dotfiles/zed.json"
    real.parent.mkdir()
    real.write_text("{}")
    link = tmp_path / "home/.config/zed/settings.json"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    run("zed", "--scope", "user")
    assert link.is_symlink()
    assert "context_servers" in real.read_text()
    run("zed", "--scope", "user", "--remove")
    assert link.is_symlink()
    assert real.read_text() == "{}"


def test_a_file_that_changes_meanwhile_is_left(tmp_path):
    file = tmp_path / "a.json"
    file.write_text("new")
    with pytest.raises(StorageFault, match="meanwhile"):
        carry_out(Step("updated", file, "old", "ours"))
    assert file.read_text() == "new"


def test_what_cannot_be_written_is_said_and_leaves_nothing_behind(
    tmp_path, monkeypatch
):
    file = tmp_path / "a.json"
    file.write_text("{}")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFault, match="No space left"):
        carry_out(Step("updated", file, "{}", "{ }"))
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]
    assert file.read_text() == "{}"


@pytest.mark.parametrize(
    ("name", "file", "text", "line"),
    [
        ("cursor", ".cursor/mcp.json", '{\n  "a": 1\n  "b": 2\n}', 3),
        ("cursor", ".cursor/mcp.json", '{\n  "mcpServers": {', 2),
        ("cursor", ".cursor/mcp.json", '{\n  "mcpServers": []\n}', 2),
        ("cursor", ".cursor/mcp.json", "{,}", 1),
        ("cursor", ".cursor/mcp.json", '\n{"a": NaN}', 2),
        ("cursor", ".cursor/mcp.json", "\n[]", 2),
        ("cursor", ".cursor/mcp.json", "[" * 100_000, 1),
        ("zed", ".zed/settings.json", "{\n/* open", 2),
        ("codex", ".codex/config.toml", 'a = 1\nb = \n[mcp_servers.x]\n', 2),
        ("codex", ".codex/config.toml", "a = 1\nb = [", 2),
        ("codex", ".codex/config.toml", "a = 1\nmcp_servers = 3\n", 2),
        ("vscode", ".vscode/mcp.json", b"{\n\xff}", 2),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_its_line_and_left(
    name, file, text, line, run, tmp_path
):
    target = tmp_path / "project" / file
    target.parent.mkdir()
    content = text if isinstance(text, bytes) else text.encode()
    target.write_bytes(content)
    said = run(name, code=2)
    assert f"{target}, line {line}:" in said
    assert "hint: nothing was changed" in said
    assert target.read_bytes() == content
    assert list(target.parent.iterdir()) == [target]
    assert "unreadable" in run("--list")


@pytest.mark.parametrize(
    "entry",
    [{"url": "http://x"}, {"command": "npx", "args": ["tamis"]}, "x", {"command": 1}],
)
def test_another_server_of_our_name_is_left(entry, run, tmp_path):
    target = tmp_path / "project/.mcp.json"
    text = json.dumps({"mcpServers": {"tamis": entry}})
    target.write_text(text)
    for arguments in ([], ["--remove"]):
        assert "another server called tamis" in run("claude-code", *arguments, code=2)
    assert target.read_text() == text
    assert "something else" in run()
    run("claude-code", "--name", "notes")
    assert set(json.loads(target.read_text())["mcpServers"]) == {"tamis", "notes"}


# --- the command --------------------------------------------------------------------------------


def test_a_dry_run_prints_the_entry_and_writes_nothing(run, tmp_path):
    said = run("codex", "--dry-run", "--skill")
    assert f"would add: the server tamis, {tmp_path}/project/.codex/config.toml" in said
    assert "[mcp_servers.tamis]\ncommand = " in said
    assert "would add: the skill" in said
    assert list((tmp_path / "project").iterdir()) == []


def test_a_dry_run_does_not_print_what_others_keep_there(run, tmp_path):
    (tmp_path / "home/.claude.json").write_text('{"token": "secret", "mcpServers": {}}')
    assert "secret" not in run("claude-code", "--scope", "user", "--dry-run")


def test_json(run, tmp_path):
    said = json.loads(run("vscode", "--skill", "--json"))
    server, skill = said["files"]
    assert (said["client"], said["dry_run"], server["action"], skill["action"]) == (
        "vscode", False, "added", "added"
    )  # fmt: skip
    assert server["path"] == str(tmp_path / "project/.vscode/mcp.json")
    assert server["entry"]["type"] == "stdio"
    assert skill["path"] == str(tmp_path / "project/.agents/skills/tamis/SKILL.md")
    listed = {
        (each["client"], each["scope"]): each["state"]
        for each in json.loads(run("--json"))
    }
    assert listed[("vscode", "project")] == "installed"
    assert listed[("vscode", "user")] == "no file"
    assert len(listed) == 13


def test_a_list_says_what_is_where(run):
    run("cursor")
    lines = run("--list").splitlines()
    assert any(line.split()[:3] == ["cursor", "project", "installed"] for line in lines)
    assert any(line.split()[:4] == ["zed", "user", "no", "file"] for line in lines)
    assert lines == run().splitlines(), "no client: the list"


def test_the_skill_comes_and_goes(run, tmp_path):
    skill = tmp_path / "project/.claude/skills/tamis/SKILL.md"
    run("claude-code", "--skill")
    assert skill.read_text() == skill_text()
    assert run("claude-code", "--skill").count("nothing to do") == 2
    skill.write_text("mine")
    assert "as it was" in run("claude-code", "--skill")
    assert (skill.parent / "SKILL.md.tamis-backup").read_text() == "mine"
    (skill.parent / "SKILL.md.tamis-backup").unlink()
    run("claude-code", "--skill", "--remove")
    assert not skill.parent.exists()
    said = run("claude-desktop", "--skill", code=2)
    assert "reads no skills" in said
    assert not list((tmp_path / "home").rglob("*.json")), (
        "all is planned before anything is written"
    )


def test_the_skill_is_one_that_agents_take():
    """The limits of the Agent Skills standard, and every tool and filter that agents are to know."""
    _, front, body = skill_text().split("---\n", 2)
    matter = yaml.safe_load(front)
    assert matter["name"] == "tamis"
    assert 0 < len(matter["description"]) <= 1024
    assert body.count("\n") < 500
    for word in (
        "query_documents", "query_unique_documents", "graphrag_hybrid_search", "get_passage", "index_status",
        "excluded_files", "exclude_patterns", "include_patterns", "workspace", "under", "tags", "chunk_types",
        "languages", "author", "category", "modified_after", "modified_before", "exclude_archived", "filter",
        "freshness",
    ):  # fmt: skip
        assert f"`{word}" in body, word


def test_wrong_arguments(run):
    assert "no file for a project" in run(
        "claude-desktop", "--scope", "project", code=2
    )
    assert "no name for a server" in run("zed", "--name", "a b", code=2)
    assert "does not exist" in run("zed", "--root", "nowhere", code=2)
    assert "'emacs' is not one of" in run("emacs", code=2)


# --- roots ---------------------------------------------------------------------------------------


def test_a_home_is_no_root_by_accident(run, monkeypatch, tmp_path):
    """Issue 6, item 5: it asks for --root."""
    home = tmp_path / "home"
    for folder in (home, tmp_path, Path("/")):
        monkeypatch.chdir(folder)
        said = run("claude-desktop", code=2)
        assert "--root" in said
        assert "is no project" in run("cursor", code=2)
        assert "--root" in run("claude-desktop", "--root", ".", code=2)
    run("claude-desktop", "--root", str(home))
    assert str(home) in (home / ".config/Claude/claude_desktop_config.json").read_text()


def test_roots_are_checked_and_counted_once(run, monkeypatch, tmp_path):
    project = tmp_path / "project"
    (project / "docs").mkdir()
    (project / "link").symlink_to(project / "docs")
    assert chosen_roots(()) == (project,)
    assert chosen_roots(("docs", "link", str(project))) == (project / "docs", project)
    assert chosen_roots(("~",)) == (tmp_path / "home",)
    (project / "way-home").symlink_to(tmp_path / "home")
    with pytest.raises(RootTooWide):
        chosen_roots(("way-home",))
    assert holds_a_home(Path("/"))
    assert not holds_a_home(project)
