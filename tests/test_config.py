"""Settings: which source wins, and what every mistake in each of them says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trisched.config import Settings, load, locate, read_jobs
from trisched.config.toml_lines import key_lines, line_of
from trisched.domain.duration import parse_instant
from trisched.errors import Invalid, Misconfigured

NOW = parse_instant("2026-11-18T09:00:00Z", "now")


def write(directory: Path, text: str) -> Path:
    path = directory / "trisched.toml"
    path.write_text(dedent(text))
    return path


def refusal(path: Path) -> str:
    """What is said about the file by whoever reads it first, settings or jobs; without its directory."""

    def read() -> None:
        load({}, {}, path)
        read_jobs(path, now=NOW)

    with pytest.raises(Misconfigured) as caught:
        read()
    return str(caught.value).replace(f"{path.parent}/", "")


def test_defaults_are_those_of_the_contract() -> None:
    settings = load({}, {}, None)
    assert settings == Settings()
    assert settings.database_url == ".trisched/trisched.db"
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert (settings.concurrency, settings.drain_timeout) == (100, 30.0)
    assert (settings.scheduler, settings.worker, settings.web) == (True, True, True)
    lease = settings.lease_times
    assert (lease.node, lease.beat, lease.margin, lease.grace) == (15, 3, 5, 2)
    assert (lease.leader, lease.leader_beat) == (5, 1)


def test_flag_wins_over_code_over_environment_over_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[node]\nport = 1\nnode_id = 'file'\ntags = ['file']\nhost = 'localhost'\n")
    environ = {"TRISCHED_PORT": "2", "TRISCHED_NODE_ID": "environment", "TRISCHED_TAGS": "environment"}
    settings = load({"port": "4"}, environ, file, code={"port": 3, "node_id": "code"})
    assert settings.port == 4
    assert settings.node_id == "code"
    assert settings.tags == ("environment",)
    assert settings.host == "localhost"


def test_every_source_spells_every_kind_of_value(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """\
        [node]
        database = "sqlite:////var/lib/trisched.db"
        data_dir = "data"
        tags = ["gpu", "large"]
        web = false
        node_lease = "30s"

        [worker]
        concurrency = 7
        queues = ["mail"]
        drain_timeout = 5

        [http]
        allow = ["10.0.0.0/8", "*.corp.example:8080"]

        [secrets]
        dir = "/run/secrets"
        """,
    )
    variables = {
        "TRISCHED_DATABASE": "sqlite:////var/lib/trisched.db",
        "TRISCHED_DATA_DIR": "data",
        "TRISCHED_TAGS": "gpu, large",
        "TRISCHED_WEB": "off",
        "TRISCHED_NODE_LEASE": "30",
        "TRISCHED_CONCURRENCY": "7",
        "TRISCHED_QUEUES": "mail,",
        "TRISCHED_DRAIN_TIMEOUT": "5s",
        "TRISCHED_HTTP_ALLOW": "10.0.0.0/8, *.corp.example:8080",
        "TRISCHED_SECRETS_DIR": "/run/secrets",
    }
    flags = {name.removeprefix("TRISCHED_").lower(): text for name, text in variables.items()}
    from_file = load({}, {}, file)
    assert from_file.data_dir == Path("data")
    assert from_file.lease_times.node == 30
    assert from_file.drain_timeout == 5
    assert not from_file.web
    assert from_file.http_allow.trusts("a.corp.example", 8080)
    assert from_file.secrets_dir == Path("/run/secrets")
    assert from_file == load({}, variables, None) == load(flags, {}, None)


def test_a_secret_in_the_environment_is_no_setting() -> None:
    assert load({}, {"TRISCHED_SECRET_DIR": "x", "TRISCHED_SECRET_PORT": "y"}, None) == Settings()


def test_a_target_that_is_none_is_refused_with_its_place(tmp_path: Path) -> None:
    message = refusal(write(tmp_path, "[http]\nallow = ['*']\n"))
    assert message.startswith("trisched.toml:2: http.allow: '*' is no target; write an address, ")
    message = refusal(write(tmp_path, "[http]\nallowed = []\n"))
    assert message == "trisched.toml:2: http.allowed: is not a setting of [http]; did you mean allow?"


def test_an_http_job_may_stand_in_the_file(tmp_path: Path) -> None:
    text = "[jobs.ping]\ntype = 'http'\nschedule = '@hourly'\n[jobs.ping.request]\nurl = 'https://example.com/'\n"
    (job,) = read_jobs(write(tmp_path, text), now=NOW)
    assert job.fields["request"] == {"url": "https://example.com/"}
    message = refusal(write(tmp_path, text + "headers = { 'a b' = 'x' }\nmethod = 'BREW'\n"))
    assert "trisched.toml:7: jobs.ping.request.method: " in message
    assert "trisched.toml:6: jobs.ping.request.headers.a b: " in message


def test_an_empty_variable_is_no_variable() -> None:
    assert load({}, {"TRISCHED_PORT": "", "TRISCHED_DATABASE": ""}, None) == Settings()


def test_a_program_may_give_paths_and_python_values() -> None:
    code = {"database": Path("jobs.db"), "data_dir": Path("data"), "tags": ["a"], "web": False, "drain_timeout": 1.5}
    settings = load({}, {}, None, code=code)
    assert (settings.database_url, settings.data_dir, settings.tags) == ("jobs.db", Path("data"), ("a",))
    assert (settings.web, settings.drain_timeout) == (False, 1.5)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_loopback_hosts_are_served(host: str) -> None:
    assert load({"host": host}, {}, None).host == host.strip("[]")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", "127.0.0.1.example.org"])
def test_other_hosts_are_refused_with_the_reason(host: str) -> None:
    with pytest.raises(Misconfigured, match=r"--host: .* needs tokens and TLS, .*; bind 127\.0\.0\.1"):
        load({"host": host}, {}, None)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("port", "http", "must be a whole number"),
        ("port", "70000", "must be within 0–65535"),
        ("concurrency", "0", "must be within 1–100000"),
        ("web", "perhaps", "must be true or false"),
        (
            "drain_timeout",
            "soon",
            ('\'soon\' is not a duration; write seconds as a number, or text such as "90s", "5m", "1h30m", "1d"'),
        ),
        (
            "database",
            "mysql://u:secret@h/d",
            (
                "mysql is not a database that trisched knows; "
                "write a path, sqlite:///path or postgresql://user@host/name"
            ),
        ),
        ("database", "sqlite://", "names no file; write sqlite:///trisched.db, or sqlite:////var/lib/trisched.db"),
        (
            "database",
            ":memory:",
            (
                "a database in memory would forget every run; "
                "write a path, sqlite:///path or postgresql://user@host/name"
            ),
        ),
        ("node_id", "my node", "must not contain blanks or slashes: it stands in addresses"),
        ("redis", "redis://127.0.0.1", "Redis is not available in this version; remove it"),
        ("redis", "http://127.0.0.1", "must be addresses such as redis://127.0.0.1:6379/0"),
        ("auth", "token", "only auto is available in this version"),
        ("tls_cert", "cert.pem", "is not available in this version; remove it"),
        ("read_only", "true", "is not available in this version; remove it"),
        (
            "node_beat",
            "6s",
            (
                "two beats of 6 s do not fit into the lease of 15 s less the margin of 5 s; "
                "lengthen node_lease or shorten node_beat"
            ),
        ),
        (
            "leader_lease",
            "1s",
            (
                "two beats of 1 s do not fit into the leader's lease of 1 s; "
                "lengthen leader_lease or shorten leader_beat"
            ),
        ),
    ],
)
def test_an_error_names_the_flag_or_the_variable(name: str, text: str, message: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        load({name: text}, {}, None)
    assert str(caught.value) == f"--{name.replace('_', '-')}: {message}"
    with pytest.raises(Misconfigured) as caught:
        load({}, {f"TRISCHED_{name.upper()}": text}, None)
    assert str(caught.value) == f"TRISCHED_{name.upper()}: {message}"


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Misconfigured) as caught:
        load({"port": "x"}, {"TRISCHED_WEB": "x"}, None, code={"colour": "red"})
    assert str(caught.value).splitlines() == [
        "App(colour=…): is not a setting",
        "--port: must be a whole number",
        "TRISCHED_WEB: must be true or false",
    ]


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"other\.toml: no such file; `trisched init` writes one"):
        load({}, {}, tmp_path / "other.toml")


def test_a_directory_and_a_binary_are_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        load({}, {}, tmp_path)
    binary = tmp_path / "trisched.toml"
    binary.write_bytes(b"[node]\nnode_id = '\xff'\n")
    assert refusal(binary) == "trisched.toml:2: is not UTF-8 text; save it as UTF-8"


BROKEN = [
    ("[node]\nport = \n", "trisched.toml:2: is not TOML: Invalid value"),
    ("[node]\nport = 1\nport = 2\n", "trisched.toml:3: is not TOML: Cannot overwrite a value"),
    ("[jobs.a\n", "trisched.toml:1: is not TOML: Expected ']' at the end of a table declaration"),
    ("[node]\ntags = ['a'", "trisched.toml:2: is not TOML: Unclosed array before the end of the file"),
    (
        "colour = 1\n",
        "trisched.toml:1: colour: is not known at the top level; there are node, worker, http, secrets, jobs",
    ),
    ("[node]\n\n[job.x]\n", "trisched.toml:3: job: is not known at the top level; did you mean jobs?"),
    ("[[jobs]]\n", "trisched.toml:1: jobs: must be a table: write [jobs.NAME]"),
    ("node = 1\n", "trisched.toml:1: node: must be a table: write [node]"),
    ("# a\n[node]\n# b\nprot = 1\n", "trisched.toml:4: node.prot: is not a setting of [node]; did you mean port?"),
    ("[worker]\nport = 1\n", "trisched.toml:2: worker.port: is not a setting of [worker]; move it to [node]"),
    (
        "[worker]\nx = 1\n",
        "trisched.toml:2: worker.x: is not a setting of [worker]; there are queues, concurrency, drain_timeout",
    ),
    ("[node]\nport = '8000a'\n", "trisched.toml:2: node.port: must be a whole number"),
    ("[node]\nweb = 1\n", "trisched.toml:2: node.web: must be true or false"),
    ("[node]\ntags = 'a'\n", "trisched.toml:2: node.tags: must be a list of strings"),
    (
        "[node]\nqueues = []\n[worker]\nqueues = ['a']\n",
        "trisched.toml:4: worker.queues: is set a second time; trisched.toml:2: node.queues set it before",
    ),
    (
        "[node]\nnode_lease = 6\n",
        (
            "trisched.toml:2: node.node_lease: two beats of 3 s do not fit into the lease of 6 s less the margin "
            "of 5 s; lengthen node_lease or shorten node_beat"
        ),
    ),
    (
        "[jobs.a]\ntype = 'shell'\ncommand = 'true'\nschedule = '61 * * * *'\n",
        "trisched.toml:4: jobs.a.schedule: minute: 61 is not within 0–59",
    ),
    (
        "[jobs.a]\ntype = 'shell'\ncommand = 'true'\nschedule = { cron = '0 0 31 2 *' }\n",
        "trisched.toml:4: jobs.a.schedule.cron: never fires within 5 years",
    ),
    (
        "[jobs.a]\ntype = 'shell'\ncommand = 'true'\n[jobs.a.schedule]\n\nevery = '0s'\n",
        "trisched.toml:6: jobs.a.schedule.every: must be at least 100ms",
    ),
    (
        "[jobs.a]\ntype = 'shell'\ncommand = 'true'\n\nbackoff.base = 1\nbackoff.max = 'x'\n",
        (
            "trisched.toml:6: jobs.a.backoff.max: 'x' is not a duration; write seconds as a number, "
            'or text such as "90s", "5m", "1h30m", "1d"'
        ),
    ),
    ("[jobs.a]\ntype = 'shell'\n", "trisched.toml:1: jobs.a.command: is required for a job of type shell"),
    (
        "[jobs.a]\ntype = 'shell'\ncommand = [\n  'echo',\n  7,\n]\n",
        "trisched.toml:3: jobs.a.command[1]: must be a string",
    ),
    (
        '[jobs."nightly backup"]\ntype = "shell"\ncommand = "true"\nretires = 3\n',
        'trisched.toml:4: jobs."nightly backup".retires: is not a field of a job; did you mean retries?',
    ),
    (
        "[jobs]\na = 1\n",
        "trisched.toml:2: jobs.a: must be a table: write [jobs.NAME] above the fields of a job, not a = …",
    ),
    (
        "[jobs.a]\ntype = 'shell'\ncommand = 'true'\nname = 'b'\n",
        "trisched.toml:4: jobs.a.name: the name of the table is the name of the job; remove this line",
    ),
    (
        (
            "[jobs.a]\ntype = 'shell'\ncommand = 'true'\ndepends_on = ['b']\n\n"
            "[jobs.b]\ntype = 'shell'\ncommand = 'true'\ndepends_on = ['a']\n"
        ),
        "trisched.toml:4: jobs.a.depends_on: a cycle: a → b → a",
    ),
]


@pytest.mark.parametrize(("text", "message"), BROKEN, ids=[message[14:70] for _, message in BROKEN])
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(write(tmp_path, text)).startswith(message)


def test_all_broken_lines_are_named_at_once(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """\
        [jobs.one]
        type = "shell"
        command = ""
        timeout = -1

        [jobs.two]
        type = "carrier pigeon"
        """,
    )
    assert [line.split(" ")[0] for line in refusal(file).splitlines()] == [
        "trisched.toml:3:",
        "trisched.toml:4:",
        "trisched.toml:7:",
    ]


def test_jobs_come_in_the_order_of_the_file_with_their_lines(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """\
        [jobs.second]
        type = "shell"
        command = '''
        [jobs.fake]
        '''

        [jobs."first one"]
        type = "shell"
        command = "true"
        schedule = 2027-01-31T09:00:00Z
        """,
    )
    second, first = read_jobs(file, now=NOW)
    assert (second.name, second.line, first.name, first.line) == ("second", 1, "first one", 7)
    assert second.fields == {"name": "second", "type": "shell", "command": "[jobs.fake]\n"}
    assert first.place == f"{file}:7"


def test_a_file_without_jobs_has_none(tmp_path: Path) -> None:
    assert read_jobs(write(tmp_path, "[node]\nport = 1\n"), now=NOW) == []


def test_a_moment_that_passed_does_not_keep_the_node_from_starting_again(tmp_path: Path) -> None:
    file = write(tmp_path, "[jobs.once]\ntype = 'shell'\ncommand = 'true'\nschedule = '2026-01-01T00:00:00Z'\n")
    assert [job.name for job in read_jobs(file, now=NOW)] == ["once"]


def test_what_the_store_refuses_gets_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, "[jobs.a]\ntype = 'python'\n\nfunction = 'tasks.gone'\n\n[jobs.'a.b']\ntype = 'python'\n")
    refused = locate(file, Invalid([*Invalid.at("jobs.a.function", "unknown").errors,
                                    *Invalid.at("jobs.a.b.type", "wrong").errors,
                                    *Invalid.at("jobs.declared in code.mode", "wrong").errors]))  # fmt: skip
    assert str(refused).replace(f"{tmp_path}/", "").splitlines() == [
        "trisched.toml:4: jobs.a.function: unknown",
        'trisched.toml:7: jobs."a.b".type: wrong',
        "jobs.declared in code.mode: wrong",
    ]


KEYS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1, max_size=8)
VALUES = st.sampled_from(
    ["1", "'#'", '"a \\" # ["', '"""\n[x]\n"" # "\n"""', "'''\ny = 1\n'''", "[\n1, # [\n2 ]", "{ a = 1 }"]
)


def quoted(key: str) -> str:
    return '"' + "".join(f"\\u{ord(char):04x}" if char in '"\\\x7f' else char for char in key) + '"'


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=4), max_size=4), st.integers(0, 2))
def test_the_line_of_each_key_is_where_it_is_written(tables: dict[str, dict[str, str]], blanks: int) -> None:
    text = ""
    expected: dict[tuple[str, ...], int] = {}
    for table, entries in tables.items():
        text += "# [comment]\n" * blanks
        expected[(table,)] = text.count("\n") + 1
        text += f"[ {quoted(table)} ] # here\n"
        for key, value in entries.items():
            expected[table, key] = text.count("\n") + 1
            text += f"{quoted(key)} = {value}\n"
    assert tomllib.loads(text).keys() == tables.keys()
    assert key_lines(text) == expected


def test_a_key_without_a_line_of_its_own_has_that_of_its_table() -> None:
    lines = key_lines("[a.b]\n\nc.d = 1\n")
    assert lines == {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 3, ("a", "b", "c", "d"): 3}
    assert line_of(lines, ("a", "b", "c", "x", "y")) == 3
    assert line_of(lines, ("a", "b", "missing")) == 1
    assert line_of(lines, ("elsewhere",)) == 1
